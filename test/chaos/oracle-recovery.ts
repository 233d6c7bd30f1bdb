/** Judges how long runs whose worker was killed, stopped or cut off waited for the next one. */
import type { Violation } from "./evidence.ts";
import type { Figures } from "./report.ts";

/** So long at most, ms, at the 95th of a hundred: a lease of ten seconds, and two for somebody to find it. */
export const CLAIMED_AGAIN_MS = 12_000;

/** Whether runs were claimed again in time. */
export function judgeRecovery({ count, p95 }: Figures["redispatch"]): Violation[] {
  if (p95 <= CLAIMED_AGAIN_MS) return [];
  const detail = `p95 of ${count} runs was ${p95} ms, more than ${CLAIMED_AGAIN_MS} ms`;
  return [{ broken: "a run of a killed worker is claimed again in time", detail }];
}
