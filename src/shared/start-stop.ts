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
