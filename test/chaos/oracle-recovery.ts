/** Judges how long runs whose worker was killed, stopped or cut off waited for the next one. */
import { TIMING } from "../../src/shared/protocol/limits.ts";
import type { Violation } from "./evidence.ts";
import type { StrikeKind } from "./fault-schedule.ts";
import type { Figures } from "./report.ts";

/** Limit (ms) of the 95th percentile: a lease of 10 s, and 2 s until a sweeper finds it. */
export const CLAIMED_AGAIN_MS = 12_000;

/** Time (ms) after which a worker without an answer of Redis closes the connection: a lost answer delays a claim by that. */
const LOST_ANSWER_MS = 5_000;

/** Faults that separate a worker from its runs, so that other workers must claim these. */
const WORKERS_TAKEN: readonly StrikeKind[] = ["kill", "stop", "refuse", "blackhole"];

/**
 * Checks that runs were claimed again in time. If answers of Redis are `swallowed`, each claim may have lost one. Without
 * BullMQ's stalled check, the wake of a worker that died before its claim is recovered at the agent's next deadline. If no run
 * was claimed again although workers were struck, that is a violation.
 */
export function judgeRecovery(
  { redispatch: { count, p95, slowest: uid }, faults }: Pick<Figures, "redispatch" | "faults">,
  { swallowed, stalledCheck }: { swallowed: boolean; stalledCheck: boolean },
): Violation[] {
  const broken = "a run of a killed worker is claimed again in time";
  const taken = WORKERS_TAKEN.reduce((sum, kind) => sum + (faults[kind] ?? 0), 0);
  if (taken > 0 && count === 0)
    return [{ broken, detail: `none was claimed again, while ${taken} faults took a worker away` }];
  const mostMs = CLAIMED_AGAIN_MS + (swallowed ? LOST_ANSWER_MS : 0) + (stalledCheck ? 0 : TIMING.checkMs);
  if (p95 <= mostMs) return [];
  const detail = `p95 of ${count} runs was ${p95} ms, more than ${mostMs} ms; the slowest`;
  return [{ broken, detail, uid }];
}
