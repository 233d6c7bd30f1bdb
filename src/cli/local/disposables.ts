/**
 * Closes everything that was opened, in the opposite order, even if one closer fails. Closers added side by side run at the
 * same time, so that they wait together for a Redis that is unreachable.
 */

type Close = () => Promise<void> | void;

/** A stack of closers. */
export interface Disposables {
  /** Puts `close` on top. */
  add(close: Close): void;
  /** Puts `close` beside the closers that were added the same way just before; they must not depend on each other. */
  addBeside(close: Close): void;
  /**
   * Runs and removes all closers, newest first. Rejects with the first failure once all have run. A call meanwhile gets the
   * same end.
   */
  close(): Promise<void>;
}

/** Creates an empty stack. */
export function createDisposables(): Disposables {
  const rows: { closers: Close[]; isOpen: boolean }[] = [];
  let closing: Promise<void> | undefined;
  const closeAll = async () => {
    const failures: unknown[] = [];
    for (let row = rows.pop(); row !== undefined; row = rows.pop()) {
      const ended = await Promise.allSettled(row.closers.map(async (close) => close()));
      for (const end of ended) if (end.status === "rejected") failures.push(end.reason);
    }
    if (failures.length > 0) throw failures[0];
  };
  return {
    add: (close) => void rows.push({ closers: [close], isOpen: false }),
    addBeside(close) {
      const top = rows.at(-1);
      if (top?.isOpen) top.closers.push(close);
      else rows.push({ closers: [close], isOpen: true });
    },
    close() {
      closing ??= closeAll().finally(() => {
        closing = undefined;
      });
      return closing;
    },
  };
}
