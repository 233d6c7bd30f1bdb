/** Decides when to retry a failed model call: a pure function of the failure, the attempt and one random number. */
import type { ModelFailure } from "./model.ts";

/** Upper bound of the first back-off. */
export const BASE_DELAY_MS = 500;
/** Upper bound of every back-off that the provider did not ask for. */
export const MAX_DELAY_MS = 60_000;
/** Longest wait a provider can ask for; an agent gives up after a day anyway. */
export const MAX_RETRY_AFTER_MS = 24 * 3_600_000;

const RETRY_AFTER_JITTER = 0.1;

/**
 * Returns the delay before the next attempt, ms. Without advice from the provider: full jitter under a bound that starts at
 * {@link BASE_DELAY_MS}, doubles per attempt and stops at {@link MAX_DELAY_MS}. With `retryAfterMs`: never less than that
 * (up to {@link MAX_RETRY_AFTER_MS}), plus at most a tenth, so that a fleet does not return at the same moment.
 * `failure.retryable` says whether to retry at all.
 *
 * @param attempt failed attempts so far, 1 for the first failure
 * @param random a number in [0, 1)
 */
export function retryDelayMs(failure: ModelFailure, attempt: number, random: number): number {
  const bound = Math.min(MAX_DELAY_MS, BASE_DELAY_MS * 2 ** Math.max(0, attempt - 1));
  const backoffMs = random * bound;
  if (failure.retryAfterMs === undefined) return Math.round(backoffMs);
  const askedMs = Math.min(failure.retryAfterMs, MAX_RETRY_AFTER_MS);
  const spreadMs = Math.min(askedMs * RETRY_AFTER_JITTER * random, MAX_DELAY_MS);
  return Math.ceil(Math.max(askedMs + spreadMs, backoffMs));
}
