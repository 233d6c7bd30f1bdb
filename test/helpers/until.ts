import { inspect } from "node:util";

// Taken at load, so that a test which installs fake timers does not stop the waiting.
const { setTimeout: realSetTimeout } = globalThis;
const { performance: realPerformance } = globalThis;

const PATIENCE_MS = Number(process.env.SUBAGENT_TEST_PATIENCE_MS ?? 120_000);

/** How long and how often `until` looks. */
export interface UntilOptions {
  /** Default 120,000, or SUBAGENT_TEST_PATIENCE_MS: it ends what hangs, also on a busy machine. */
  timeoutMs?: number;
  /** Pause between two looks; default 10, and with time a tenth of what has passed, at most 50: looks cost CPU. */
  everyMs?: number;
  /** What is awaited, for the error's sentence. */
  what?: string;
}

/**
 * Calls `probe` until it returns something truthy, and resolves with that value.
 * A probe that throws counts as "not yet". Rejects after `timeoutMs`, showing the last value or error.
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
      const value = await probe();
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
