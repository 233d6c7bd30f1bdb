/** What a list of measurements comes to, and whether it may be judged. */
import { expect } from "vitest";

/** Times are judged where nothing else runs: in the long forms of the tests, not beside other test files. */
export const ARE_TIMES_JUDGED = process.env.JUDGE_TIMES === "1";

/** The value below which `share` of the measurements lie; 0 without any. `sorted`: ascending. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}

/** Durations in words: how many, median, p99 and longest, ms. */
export function durations(name: string, ms: readonly number[]): string {
  const sorted = [...ms].sort((a, b) => a - b);
  const at = (share: number) => Math.round(percentile(sorted, share));
  return `${name} ${ms.length}: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms`;
}

/** Prints what something took, ms; `JUDGE_TIMES=1` demands that it took less than `boundMs`. */
export function reportTime(what: string, ms: number, boundMs: number): void {
  process.stdout.write(`${what}: ${Math.round(ms)} ms, at most ${boundMs} wished\n`);
  if (ARE_TIMES_JUDGED) expect(ms, what).toBeLessThan(boundMs);
}
