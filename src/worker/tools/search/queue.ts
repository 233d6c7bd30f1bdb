/**
 * Decides which search goes on: a bounded number in a process, one of each run, the runs in turn.
 *
 * 1. A run has at most one search under way, however many its model asks for in one turn.
 * 2. A run whose search ends goes behind every other run that waits.
 */

import { ToolFailure } from "../../../shared/errors.ts";
import { onAbort } from "../../../shared/stop-signal.ts";

/** Hands out places. */
export interface SearchQueue {
  /**
   * Waits for the run's turn; the caller calls the answered function once, when its search is over.
   *
   * @throws {ToolFailure} when `signal` aborts first.
   */
  enter(run: string, signal: AbortSignal): Promise<() => void>;
}

/** Searches side by side in a process: each holds a chunk of a file, and reads while another one is matched. */
const MAX_SEARCHES = 16;

/** An empty queue. */
export function createSearchQueue(maxSearches: number = MAX_SEARCHES): SearchQueue {
  const active = new Set<string>();
  /** The searches that wait, by run; the runs in the order of their turns. */
  const waiting = new Map<string, (() => void)[]>();

  const setWaiting = (run: string, searches: (() => void)[]): void => {
    if (searches.length > 0) waiting.set(run, searches);
    else waiting.delete(run);
  };
  const admit = (): void => {
    for (const [run, [first, ...rest]] of [...waiting]) {
      if (active.size >= maxSearches) return;
      if (active.has(run) || first === undefined) continue;
      setWaiting(run, rest);
      active.add(run);
      first();
    }
  };
  const end = (run: string): void => {
    active.delete(run);
    const rest = waiting.get(run) ?? [];
    waiting.delete(run);
    setWaiting(run, rest);
    admit();
  };
  const enter = (run: string, signal: AbortSignal): Promise<() => void> =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(stopped());
      const leave = (): void => {
        setWaiting(
          run,
          (waiting.get(run) ?? []).filter((one) => one !== start),
        );
        reject(stopped());
      };
      const start = (): void => {
        forget();
        resolve(() => end(run));
      };
      const forget = onAbort(signal, leave);
      waiting.set(run, [...(waiting.get(run) ?? []), start]);
      admit();
    });
  return { enter };
}

function stopped(): ToolFailure {
  return new ToolFailure("The search was stopped.");
}
