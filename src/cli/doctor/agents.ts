/** What is wrong with one agent, from one look at it. Pure. */
import { PAYLOAD_VERSION } from "../../shared/protocol/agent.ts";
import {
  type AgentSight,
  deadlineOf,
  isLive,
  isTooOld,
  overdueMs,
  type RecordSight,
} from "../../shared/redis/inspection.ts";

/** See the table of checks for what each of them means. */
export type AgentTrouble =
  | "stale_queued"
  | "stale_running"
  | "stale_waiting"
  | "overdue_age"
  | "overdue_idle"
  | "unswept"
  | "unwatched"
  | "uncounted"
  | "unnamed"
  | "leaked_slots"
  | "orphaned_keys"
  | "stray_members"
  | "breaking_off"
  | "newer_records";

/**
 * How late a check may be while the sweeper works: a check that comes between a hint and its verb puts the next one off
 * by a lease (10 s), and a busy machine takes its time.
 */
export const OVERDUE_GRACE_MS = 15_000;
/** A run may break off once: another worker takes it. */
const BREAKS = 2;
/** A check that is set this long after the deadline comes too late. */
const LATE_MS = 60_000;

/** Everything that is wrong with one agent at one look; `graceMs` is how late its check may be. */
export function troublesOf(sight: AgentSight, graceMs: number): AgentTrouble[] {
  if (!isLive(sight)) return leftBehind(sight, graceMs);
  if (sight.record.version > PAYLOAD_VERSION) return ["newer_records"];
  const { nextLookMs, lifeMs, nowMs, record } = sight;
  const found = overdueTroubles(sight, record, graceMs);
  if (nextLookMs === undefined || nextLookMs > deadlineOf(record, lifeMs, nowMs) + LATE_MS)
    found.push("unwatched");
  if (record.breaks >= BREAKS) found.push("breaking_off");
  if (!sight.isCounted) found.push("uncounted");
  if (!record.isNamed) found.push("unnamed");
  return found;
}

function leftBehind(sight: AgentSight, graceMs: number): AgentTrouble[] {
  const { isCounted, log, inbox, attachments, timeline, lifeMs, nextLookMs, nowMs } = sight;
  const found: AgentTrouble[] = [];
  if (isCounted) found.push("leaked_slots");
  if (log + inbox + attachments + timeline > 0 || lifeMs !== -2) found.push("orphaned_keys");
  if (nextLookMs !== undefined && nextLookMs + graceMs < nowMs) found.push("stray_members");
  return found;
}

function overdueTroubles(sight: AgentSight, record: RecordSight, graceMs: number): AgentTrouble[] {
  if (isTooOld(sight, graceMs)) return ["overdue_age"];
  if (overdueMs(sight) <= graceMs) return [];
  switch (record.status) {
    case "idle":
      return ["overdue_idle"];
    case "waiting":
      return ["stale_waiting"];
    case "running":
      return [record.leaseUntil > 0 || !sight.isWakeAlive ? "stale_running" : "unswept"];
    default:
      return [sight.isWakeAlive ? "unswept" : "stale_queued"];
  }
}
