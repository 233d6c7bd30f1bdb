import { SubagentError } from "../../src/shared/errors.ts";

/** Calls are repeated for so long. */
const INSIST_MS = 120_000;
const PAUSE_MS = 50;

/**
 * Makes a call, as its callers are told to, until it has an outcome: one whose outcome is unknown, or that found no Redis,
 * is made again, with the same key. What else it is refused for is thrown. `repeats` hears of each repetition.
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
