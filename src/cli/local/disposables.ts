/**
 * What was opened is closed in the opposite order, all of it, also when one of them fails. What stands beside each other is
 * closed at once: where each waits for the same Redis that is away, they wait together.
 */

type Close = () => Promise<void> | void;

/** A stack of closers. */
export interface Disposables {
  /** Puts `close` on top. */
  add(close: Close): void;
  /** Puts `close` beside those that were added so just before it: they do not need one another. */
  addBeside(close: Close): void;
  /** Runs and removes all closers, newest first. Rejects with the first failure once all have run. */
  close(): Promise<void>;
}

/** An empty stack. */
export function createDisposables(): Disposables {
  const rows: { closers: Close[]; isOpen: boolean }[] = [];
  return {
    add: (close) => void rows.push({ closers: [close], isOpen: false }),
    addBeside(close) {
      const top = rows.at(-1);
      if (top?.isOpen) top.closers.push(close);
      else rows.push({ closers: [close], isOpen: true });
    },
    async close() {
      const failures: unknown[] = [];
      for (let row = rows.pop(); row !== undefined; row = rows.pop()) {
        const ended = await Promise.allSettled(row.closers.map(async (close) => close()));
        for (const end of ended) if (end.status === "rejected") failures.push(end.reason);
      }
      if (failures.length > 0) throw failures[0];
    },
  };
}
