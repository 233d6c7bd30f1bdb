/** Work that its owner can start and stop any number of times. */
interface Startable {
  /** Idempotent; starts again after a stop. */
  start(): void;
  /** Resolves when the work has ended. Idempotent. */
  stop(): Promise<void>;
}

/** Creates a stopped {@link Startable}. `begin` starts the work and returns a function that ends it. */
export function createStartable(begin: () => () => Promise<void>): Startable {
  let end: (() => Promise<void>) | undefined;
  let ending: Promise<void> = Promise.resolve();
  return {
    start() {
      end ??= begin();
    },
    stop() {
      if (end) ending = end();
      end = undefined;
      return ending;
    },
  };
}

/** A value that its start opens and its stop closes; a stop waits for a start under way, and a start for a stop. */
interface Openable<T> {
  /** Resolves with what was opened; rejects as `open` does, and the next start tries again. Idempotent. */
  start(): Promise<T>;
  /** Resolves when everything that a start has opened is closed; rejects as `close` does. Idempotent. */
  stop(): Promise<void>;
}

/** Creates a stopped {@link Openable}. `open` must leave nothing open when it rejects. */
export function createOpenable<T>(open: () => Promise<T>, close: (opened: T) => Promise<void>): Openable<T> {
  let running: Promise<T> | undefined;
  let stopping: Promise<void> = Promise.resolve();
  const opening = () => {
    // The error of a close was that of its stop.
    const begun = stopping.then(open, open);
    running = begun;
    begun.catch(() => {
      // A start after a stop may be under way in its place.
      if (running === begun) running = undefined;
    });
    return begun;
  };
  return {
    start: () => running ?? opening(),
    stop() {
      const opened = running;
      running = undefined;
      // The error of an open was that of its start.
      if (opened) stopping = opened.then(close, () => {});
      return stopping;
    },
  };
}
