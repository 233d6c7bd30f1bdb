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

/** Work that is opened by its start; a stop waits for a start under way, and a start for a stop. */
interface Openable<T> {
  /** Resolves with what was opened; rejects as `open` does, and the next start tries again. Idempotent. */
  start(): Promise<T>;
  /** Resolves when everything that a start has opened is closed. Idempotent. */
  stop(): Promise<void>;
}

/** The value that a start has opened, and the function that closes it. */
interface Opened<T> {
  readonly value: T;
  close(): Promise<void>;
}

/** Creates a stopped {@link Openable}. `open` must leave nothing open when it rejects. */
export function createOpenable<T>(open: () => Promise<Opened<T>>): Openable<T> {
  let running: Promise<Opened<T>> | undefined;
  let stopping: Promise<void> = Promise.resolve();
  const opening = () => {
    const begun = stopping.then(open);
    running = begun;
    begun.catch(() => {
      // A start after a stop may be under way in its place.
      if (running === begun) running = undefined;
    });
    return begun;
  };
  return {
    async start() {
      return (await (running ?? opening())).value;
    },
    stop() {
      const opened = running;
      running = undefined;
      if (opened)
        stopping = opened.then(
          ({ close }) => close(),
          () => {},
        );
      return stopping;
    },
  };
}
