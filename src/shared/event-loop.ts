/**
 * Bounds for work that many callers may want at once, so that the process does other work in between. Callers are served in
 * the order of their calls; one that comes just after a hold may overtake those that waited for its end. Owns nothing that has
 * to be closed.
 */

import { LinkedList } from "./linked-list.ts";

/** Returns undefined if the caller may begin at once, else a promise of its turn. */
export type TakeTurn = () => Promise<void> | undefined;

/** Maximum number of rounds of the event loop in a row in which no turn begins. */
const MOST_ROUNDS_HELD = 20;

let areTurnsHeld = false;
let holds = 0;

/**
 * Lets no turn begin in this round of the event loop and the next, unless {@link MOST_ROUNDS_HELD} rounds in a row have had none.
 * For a server that has just got a connection: Node takes one a round, so clients that come together wait for as many rounds.
 */
export function holdTurns(): void {
  areTurnsHeld = true;
  holds += 1;
  const hold = holds;
  const end = () => {
    if (hold === holds) areTurnsHeld = false;
  };
  // The end of this round may come before its turns.
  setImmediate(() => setImmediate(end));
}

/** Creates the turns of one kind of work, at most `most` in a round of the event loop. */
export function createTurns(most: number): TakeTurn {
  let left = most;
  let isCounting = false;
  let held = 0;
  const waiting: (() => void)[] = [];

  const count = () => {
    if (isCounting) return;
    isCounting = true;
    setImmediate(beginRound);
  };
  const beginRound = () => {
    isCounting = false;
    if (areTurnsHeld && waiting.length > 0 && held < MOST_ROUNDS_HELD) {
      held += 1;
      return count();
    }
    held = 0;
    const next = waiting.splice(0, most);
    left = most - next.length;
    if (next.length > 0) count();
    for (const begin of next) begin();
  };
  return () => {
    count();
    if (left === 0 || areTurnsHeld) return new Promise((resolve) => waiting.push(resolve));
    left -= 1;
    return undefined;
  };
}

/** Runs `work` when it may begin; resolves or rejects as it does. */
export type RunInLine = <T>(work: () => Promise<T>) => Promise<T>;

/** Creates a line whose work is carried out at most `most` at a time, and begins in turns: at once if it is free. */
export function createLine(most: number): RunInLine {
  let free = most;
  const waiting = new LinkedList<() => void>();
  const turn = createTurns(most);

  return async (work) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.add(resolve));
    try {
      const later = turn();
      if (later) await later;
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    }
  };
}

/** A line that hands something to the work that it runs. */
type Run<Given extends unknown[]> = <T>(work: (...given: Given) => Promise<T>) => Promise<T>;

/** Returns a line of its own for each key, made by `create`; it is kept as long as it has work. */
export function linesByKey<Given extends unknown[]>(create: () => Run<Given>): (key: string) => Run<Given> {
  const lines = new Map<string, { run: Run<Given>; works: number }>();
  return (key) => async (work) => {
    const line = lines.get(key) ?? { run: create(), works: 0 };
    lines.set(key, line);
    line.works += 1;
    try {
      return await line.run(work);
    } finally {
      line.works -= 1;
      if (line.works === 0) lines.delete(key);
    }
  };
}

/**
 * Returns a function that puts work, which must not reject, into the line unless work for the same `what` waits there: one piece
 * that begins later than several requests serves all of them.
 */
export function onceInLine<What>(inLine: RunInLine): (what: What, work: () => Promise<void>) => void {
  const waiting = new Set<What>();
  return (what, work) => {
    if (waiting.has(what)) return;
    waiting.add(what);
    void inLine(() => {
      waiting.delete(what);
      return work();
    });
  };
}
