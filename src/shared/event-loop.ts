/**
 * Bounds for work that many callers may want at once, so that the process does other work in between. Callers are served in
 * the order of their calls. Owns nothing that has to be closed.
 */

/** Returns undefined if the caller may begin at once, else a promise of its turn. */
export type TakeTurn = () => Promise<void> | undefined;

/** Creates the turns of one kind of work, at most `most` in a round of the event loop. */
export function createTurns(most: number): TakeTurn {
  let left = most;
  let isCounting = false;
  const waiting: (() => void)[] = [];

  const count = () => {
    if (isCounting) return;
    isCounting = true;
    setImmediate(beginRound);
  };
  const beginRound = () => {
    isCounting = false;
    const next = waiting.splice(0, most);
    left = most - next.length;
    if (next.length > 0) count();
    for (const begin of next) begin();
  };
  return () => {
    if (left === 0) return new Promise((resolve) => waiting.push(resolve));
    left -= 1;
    count();
    return undefined;
  };
}

/** Runs `work` when it may begin; resolves or rejects as it does. */
export type RunInLine = <T>(work: () => Promise<T>) => Promise<T>;

/** Creates a line whose work is carried out at most `most` at a time. */
export function createLine(most: number): RunInLine {
  let free = most;
  const waiting: (() => void)[] = [];

  return async (work) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    }
  };
}
