/**
 * A line of work that no caller waits for, such as the checks of a client's waits at a slow tick: it never fills the slots of
 * the client's calls. Owns the waiting work.
 */

/** Each piece of work begins in its order, at once if fewer than `most` are under way. It must not reject. */
export type Line = (work: () => Promise<void>) => void;

/** Number of begun pieces at the front that are kept at most; removing each by itself would move all the others. */
const BEGUN_KEPT = 1_024;

/** Creates a line in which at most `most` pieces of work are under way. */
export function createLine(most: number): Line {
  const line: (() => Promise<void>)[] = [];
  let [begun, underWay] = [0, 0];
  const begin = () => {
    while (underWay < most && begun < line.length) {
      const work = line[begun];
      begun += 1;
      if (begun === line.length || begun === BEGUN_KEPT) {
        line.splice(0, begun);
        begun = 0;
      }
      underWay += 1;
      void work?.().finally(() => {
        underWay -= 1;
        begin();
      });
    }
  };
  return (work) => {
    line.push(work);
    begin();
  };
}

/**
 * Returns a function that puts work into the line unless work for the same `what` waits there: one piece that begins later
 * than several requests serves all of them.
 */
export function onceInLine<What>(begin: Line): (what: What, work: () => Promise<void>) => void {
  const inLine = new Set<What>();
  return (what, work) => {
    if (inLine.has(what)) return;
    inLine.add(what);
    begin(() => {
      inLine.delete(what);
      return work();
    });
  };
}
