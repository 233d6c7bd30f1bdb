/** Repeats calls that failed, as their errors say. */
import { systemClock } from "../../src/shared/clock.ts";
import { SubagentError } from "../../src/shared/errors.ts";

const PAUSE_MS = 50;

/** Repeats a call, word for word, while its error says that this helps; adds each such error to `failures`. */
export async function whileRetryable<T>(failures: SubagentError[], call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof SubagentError) || !error.retryable) throw error;
      failures.push(error);
      await systemClock.sleep(PAUSE_MS);
    }
  }
}
