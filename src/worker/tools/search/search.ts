/**
 * One search of a run: its turn, its matcher, its time limit, and the notice if it times out. A process has a bounded number
 * of concurrent searches, at most one per run; the runs take turns.
 *
 * 1. A run has at most one search in progress, however many its model requests in one turn.
 * 2. After its search ends, a run goes behind every other run that waits.
 * 3. A search that waits for its turn holds no file descriptor: thousands may wait.
 */
import type { Clock } from "../../../shared/clock.ts";
import { ToolFailure } from "../../../shared/errors.ts";
import { onAbort } from "../../../shared/stop-signal.ts";
import type { Directory } from "../files/open.ts";
import type { ToolContext } from "../tool.ts";
import { type Matcher, type MatcherProcesses, matcherProcesses } from "./matcher.ts";

/** Time limit of one search, without the wait for its turn. */
const SEARCH_LIMIT_MS = 10_000;

/** Parts that the searches of one set of tools share. */
export interface SearchMeans {
  readonly processes: MatcherProcesses;
  readonly queue: SearchQueue;
  readonly clock: Clock;
}

/** Creates the shared parts, without a search. */
export function createSearchMeans(clock: Clock): SearchMeans {
  return { processes: matcherProcesses, queue: createSearchQueue(), clock };
}

/** Place where a search begins. */
export interface SearchStart {
  readonly directory: Directory;
}

/**
 * Opens the place where the search begins, and runs `work` until it ends or times out; always closes the place. Without a
 * place there is nothing to search. Returns a notice if the search or its pattern took too long, so that the caller can report
 * the results so far.
 *
 * @throws {ToolFailure} of `open` and `work`, and if the call is cancelled.
 */
export async function searchWithin<Start extends SearchStart>(
  { processes, queue, clock }: SearchMeans,
  ctx: Pick<ToolContext, "uid" | "run" | "signal">,
  open: () => Promise<Start | undefined>,
  work: (start: Start, matcher: Matcher, signal: AbortSignal) => Promise<void>,
): Promise<string | undefined> {
  const expiry = new AbortController();
  const signal = AbortSignal.any([ctx.signal, expiry.signal]);
  let leave: (() => void) | undefined;
  let start: Start | undefined;
  let timer: { cancel(): void } | undefined;
  let tooSlow = false;
  // Open while it waits for its turn: all processes but one end with the last open search.
  const matcher = processes.open(signal);
  try {
    leave = await queue.enter(`${ctx.uid}.${ctx.run}`, ctx.signal);
    timer = clock.timeout(SEARCH_LIMIT_MS, () => expiry.abort());
    start = await open();
    if (start !== undefined) await work(start, matcher, signal);
  } catch (error) {
    tooSlow = error instanceof ToolFailure && error.reason === "too_slow";
    if (!tooSlow && !(expiry.signal.aborted && error instanceof ToolFailure)) throw error;
  } finally {
    timer?.cancel();
    await matcher.close();
    leave?.();
    await start?.directory.handle.close();
  }
  if (ctx.signal.aborted) throw new ToolFailure("Cancelled while searching.");
  if (tooSlow) return "stopped: the pattern takes too long on this text; use a simpler one";
  return expiry.signal.aborted
    ? `stopped after ${SEARCH_LIMIT_MS / 1000} s; use a simpler pattern or a narrower path`
    : undefined;
}

/** Gives searches their turns. */
export interface SearchQueue {
  /**
   * Waits for the run's turn. The caller calls the returned function once, when its search is over.
   *
   * @throws {ToolFailure} if `signal` aborts first.
   */
  enter(run: string, signal: AbortSignal): Promise<() => void>;
}

/** Maximum concurrent searches in a process: each holds a chunk of a file, and reads while another one is matched. */
const MAX_SEARCHES = 16;

/** Creates an empty queue. */
export function createSearchQueue(maxSearches: number = MAX_SEARCHES): SearchQueue {
  const active = new Set<string>();
  /** The waiting searches, by run; the runs in the order of their turns. */
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
