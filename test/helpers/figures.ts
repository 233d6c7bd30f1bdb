/** Summarizes measurements, and asserts times if `JUDGE_TIMES=1`. */
import { expect } from "vitest";

/** Whether times are asserted: only in the long tests, where no other test file runs at the same time. */
export const ARE_TIMES_JUDGED = process.env.JUDGE_TIMES === "1";

/** Returns the value below which `share` (0–1) of the measurements lie; 0 if there are none. `sorted`: ascending. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}

/** Formats durations (ms): count, median, p99 and maximum. */
export function durations(name: string, ms: readonly number[]): string {
  const sorted = [...ms].sort((a, b) => a - b);
  const at = (share: number) => Math.round(percentile(sorted, share));
  return `${name} ${ms.length}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms`;
}

/** Prints a duration (ms). With `JUDGE_TIMES=1` it must be less than `boundMs`. */
export function reportTime(what: string, ms: number, boundMs: number): void {
  process.stdout.write(`${what}: ${Math.round(ms)} ms, at most ${boundMs} wished\n`);
  if (ARE_TIMES_JUDGED) expect(ms, what).toBeLessThan(boundMs);
}
