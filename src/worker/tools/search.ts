/** Runs a search with a matching thread and a time limit, and keeps what was found when the time is over. */
import type { Clock } from "../../shared/clock.ts";
import type { Directory } from "./confined-path.ts";
import type { LineMatcher, LineMatcherPool } from "./line-matcher.ts";
import { ToolFailure } from "./tool.ts";

/** How long one search may take, waiting for a free thread not counted. */
const SEARCH_LIMIT_MS = 10_000;

/** What a search needs from its surroundings. */
export interface SearchMeans {
  readonly matchers: LineMatcherPool;
  readonly clock: Clock;
  /** The call's own signal; aborting it fails the search. */
  readonly signal: AbortSignal;
}

/**
 * Runs `work` until it ends or its time is over; `start` is closed in every case. Answers a notice when the time was
 * over, so that the caller can report what it has.
 *
 * @throws {ToolFailure} of `work`, and when the call is cancelled.
 */
export async function searchWithin(
  { matchers, clock, signal }: SearchMeans,
  start: Directory,
  work: (matcher: LineMatcher, signal: AbortSignal) => Promise<void>,
): Promise<string | undefined> {
  const expiry = new AbortController();
  const either = AbortSignal.any([signal, expiry.signal]);
  let timer: { cancel(): void } | undefined;
  let matcher: LineMatcher | undefined;
  try {
    matcher = await matchers.open(either);
    timer = clock.timeout(SEARCH_LIMIT_MS, () => expiry.abort());
    await work(matcher, either);
  } catch (error) {
    if (!expiry.signal.aborted || !(error instanceof ToolFailure)) throw error;
  } finally {
    timer?.cancel();
    await matcher?.close();
    await start.handle.close();
  }
  if (signal.aborted) throw new ToolFailure("Cancelled while searching.");
  return expiry.signal.aborted
    ? `stopped after ${SEARCH_LIMIT_MS / 1000} s; use a simpler pattern or a narrower path`
    : undefined;
}
