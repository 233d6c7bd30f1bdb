/** Starts and stops work in a fixed order, whatever calls come together. */
import { SubagentError } from "./errors.ts";

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

/** Steps of work that a stop cancels while it starts. */
interface CancellableSteps<T> {
  /** Opens what the work needs, without a wait. */
  open(): T;
  /** Begins the work. Between two steps it calls `requireGoingOn`, which throws `closed` during a stop. */
  begin(opened: T, requireGoingOn: () => void): Promise<void>;
  /** Ends the work, or its start under way, `starting`, and closes everything. */
  end(opened: T, starting: Promise<void> | undefined): Promise<void>;
}

/** Work that a stop cancels while it starts. */
interface Cancellable<T> {
  /** The value that is open; undefined before a start and after a stop. */
  readonly opened: T | undefined;
  /**
   * Resolves when the work goes on; rejects as `begin` does, and again until the next stop, but with `closed` if it is stopped
   * meanwhile. During a stop it begins after that, whether that fails or not. Idempotent.
   */
  start(): Promise<void>;
  /** Resolves when everything is closed. Idempotent. */
  stop(): Promise<void>;
}

/** Creates a stopped {@link Cancellable}; `what` begins its refusals: `The worker`. */
export function createCancellable<T>(
  what: string,
  { open, begin, end }: CancellableSteps<T>,
): Cancellable<T> {
  let opened: T | undefined;
  let starting: Promise<void> | undefined;
  let stopping: Promise<void> | undefined;
  let stops = 0;
  const requireNoStopSince = (before: number) => {
    if (stops !== before) throw new SubagentError("closed", `${what} was stopped before it had started.`);
  };
  const endAll = async (held: T) => {
    // The error of an end is that of its stop: the next start begins anew.
    await end(held, starting).finally(() => {
      opened = starting = stopping = undefined;
    });
  };
  const work: Cancellable<T> = {
    get opened() {
      return opened;
    },
    async start() {
      const before = stops;
      if (stopping) {
        await stopping.catch(() => {});
        requireNoStopSince(before);
        return work.start();
      }
      const requireGoingOn = () => requireNoStopSince(before);
      opened ??= open();
      // After a stop its last step may succeed, or fail for what the stop has closed.
      starting ??= begin(opened, requireGoingOn).finally(requireGoingOn);
      return starting;
    },
    stop() {
      stops += 1;
      if (opened) stopping ??= endAll(opened);
      return stopping ?? Promise.resolve();
    },
  };
  return work;
}
