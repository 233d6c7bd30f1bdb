/** What was opened is closed in the opposite order, all of it, also when one of them fails. */

/** A stack of closers. */
export interface Closing {
  /** Puts `close` on top. */
  add(close: () => Promise<void> | void): void;
  /** Runs and removes all closers, newest first. Rejects with the first failure once all have run. */
  close(): Promise<void>;
}

/** An empty stack. */
export function createClosing(): Closing {
  const closers: (() => Promise<void> | void)[] = [];
  return {
    add: (close) => void closers.push(close),
    async close() {
      const failures: unknown[] = [];
      for (let close = closers.pop(); close !== undefined; close = closers.pop()) {
        try {
          await close();
        } catch (failure) {
          failures.push(failure);
        }
      }
      if (failures.length > 0) throw failures[0];
    },
  };
}
