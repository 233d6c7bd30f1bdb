import { inspect } from "node:util";

// Read at load time, so that a test with fake timers does not block the wait.
const { setTimeout: realSetTimeout, clearTimeout: realClearTimeout } = globalThis;
const { performance: realPerformance } = globalThis;

const PATIENCE_MS = Number(process.env.SUBAGENT_TEST_PATIENCE_MS ?? 120_000);

/** Timeout and interval of `until`. */
export interface UntilOptions {
  /** Default 120,000, or SUBAGENT_TEST_PATIENCE_MS: it ends a test that hangs, even on a busy machine. */
  timeoutMs?: number;
  /** Pause (ms) between two probes, which cost CPU. Default: a tenth of the elapsed time, at least 10 and at most 50. */
  everyMs?: number;
  /** Description of the condition for the error message; default: the source of `probe`. */
  what?: string;
}

/**
 * Calls `probe` until it returns a truthy value, and resolves to that value.
 * A probe that throws counts as "not yet". Rejects after `timeoutMs` with the last value or error in the message, also if a
 * probe does not settle.
 */
export async function until<T>(
  probe: () => Promise<T> | T,
  options: UntilOptions = {},
): Promise<Exclude<T, false | null | undefined | 0 | "">> {
  const { timeoutMs = PATIENCE_MS, everyMs, what = probe.toString() } = options;
  const startMs = realPerformance.now();
  const pauseMs = () => everyMs ?? Math.min(50, Math.max(10, (realPerformance.now() - startMs) / 10));
  for (;;) {
    let last: string;
    try {
      const value = await settled(probe, timeoutMs - (realPerformance.now() - startMs));
      if (value) return value as Exclude<T, false | null | undefined | 0 | "">;
      last = `last value: ${inspect(value, { depth: 4 })}`;
    } catch (failure) {
      last = `last error: ${inspect(failure, { depth: 2 })}`;
    }
    if (realPerformance.now() - startMs >= timeoutMs) {
      throw new Error(`still waiting after ${timeoutMs} ms for: ${what}\n${last}`);
    }
    await new Promise((resolve) => realSetTimeout(resolve, pauseMs()));
  }
}

/** Rejects if `probe` has not settled after `ms`. */
async function settled<T>(probe: () => Promise<T> | T, ms: number): Promise<T> {
  const probed = probe();
  if (!(probed instanceof Promise)) return probed;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = realSetTimeout(() => reject(new Error("the probe has not settled")), Math.max(0, ms));
  });
  return Promise.race([probed, late]).finally(() => realClearTimeout(timer));
}
