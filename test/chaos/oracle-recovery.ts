/** Judges how long runs whose worker was killed, stopped or cut off waited for the next one. */
import type { Violation } from "./evidence.ts";
import type { Figures } from "./report.ts";

/** So long at most, ms, at the 95th of a hundred: a lease of ten seconds, and two for somebody to find it. */
export const CLAIMED_AGAIN_MS = 12_000;

/** How long a worker waits for an answer of Redis before it gives up the connection, ms: a lost answer delays a claim by that. */
const LOST_ANSWER_MS = 5_000;

/** Whether runs were claimed again in time; where answers of Redis are `swallowed`, each may have lost one. */
export function judgeRecovery({ count, p95 }: Figures["redispatch"], swallowed: boolean): Violation[] {
  const mostMs = CLAIMED_AGAIN_MS + (swallowed ? LOST_ANSWER_MS : 0);
  if (p95 <= mostMs) return [];
  const detail = `p95 of ${count} runs was ${p95} ms, more than ${mostMs} ms`;
  return [{ broken: "a run of a killed worker is claimed again in time", detail }];
}
