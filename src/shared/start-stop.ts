/** What `start` begins and `stop` ends, as often as its owner likes. */
interface Startable {
  /** Idempotent; begins anew after a stop. */
  start(): void;
  /** Resolves when it has ended. Idempotent. */
  stop(): Promise<void>;
}

/** Something that is not started; `begin` begins it and answers what ends it. */
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
