/** What a list of measurements comes to. Pure. */

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
