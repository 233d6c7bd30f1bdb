import { SubagentError } from "../../src/shared/errors.ts";

/** Time (ms) for which a call is repeated. */
const INSIST_MS = 120_000;
const PAUSE_MS = 50;

/**
 * Repeats a call, as the documentation tells callers, until it has an outcome: after `outcome_unknown` or `redis_unavailable` it
 * is made again with the same key. Throws any other error. Calls `repeats` before each repetition.
 */
export async function insist<T>(call: () => Promise<T>, repeats: () => void = () => {}): Promise<T> {
  const givesUpAtMs = performance.now() + INSIST_MS;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      const unanswered =
        error instanceof SubagentError &&
        (error.code === "outcome_unknown" || error.code === "redis_unavailable");
      if (!unanswered || performance.now() > givesUpAtMs) throw error;
      repeats();
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}
