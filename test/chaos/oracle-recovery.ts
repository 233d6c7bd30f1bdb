/** Judges how long runs whose worker was killed, stopped or cut off waited for the next one. */
import { TIMING } from "../../src/shared/protocol/limits.ts";
import type { Violation } from "./evidence.ts";
import type { StrikeKind } from "./fault-schedule.ts";
import type { Figures } from "./report.ts";

/** So long at most, ms, at the 95th of a hundred: a lease of ten seconds, and two for somebody to find it. */
export const CLAIMED_AGAIN_MS = 12_000;

/** How long a worker waits for an answer of Redis before it gives up the connection, ms: a lost answer delays a claim by that. */
const LOST_ANSWER_MS = 5_000;

/** Faults that take a worker away from the runs it holds: others have to claim these. */
const WORKERS_TAKEN: readonly StrikeKind[] = ["kill", "stop", "refuse", "blackhole"];

/**
 * Whether runs were claimed again, and in time; where answers of Redis are `swallowed`, each may have lost one. Without BullMQ's
 * check for stalled jobs a wake whose worker died before it claimed is found at the agent's next look. Workers that were taken away
 * without any run being claimed again prove nothing.
 */
export function judgeRecovery(
  { redispatch: { count, p95, slowest: uid }, faults }: Pick<Figures, "redispatch" | "faults">,
  { swallowed, stalledCheck }: { swallowed: boolean; stalledCheck: boolean },
): Violation[] {
  const broken = "a run of a killed worker is claimed again in time";
  const taken = WORKERS_TAKEN.reduce((sum, kind) => sum + (faults[kind] ?? 0), 0);
  if (taken > 0 && count === 0)
    return [{ broken, detail: `none was claimed again, while ${taken} faults took a worker away` }];
  const mostMs = CLAIMED_AGAIN_MS + (swallowed ? LOST_ANSWER_MS : 0) + (stalledCheck ? 0 : TIMING.lookMs);
  if (p95 <= mostMs) return [];
  const detail = `p95 of ${count} runs was ${p95} ms, more than ${mostMs} ms; the slowest`;
  return [{ broken, detail, uid }];
}
