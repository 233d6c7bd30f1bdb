/** What is wrong with agents, from what was seen of them. Pure. */
import { PAYLOAD_VERSION } from "../../shared/protocol/agent.ts";
import {
  type AgentSight,
  deadlineOf,
  isLive,
  isTooOld,
  overdueMs,
  type RecordSight,
} from "../../shared/redis/agent-sight.ts";
import { formatCount } from "../figures.ts";
import { type CheckName, findingOf } from "./checks.ts";
import type { Facts } from "./facts.ts";
import { agentName } from "./names.ts";
import type { Finding } from "./report.ts";

/**
 * A sweeper that works has looked this long after a deadline: a look that came between a touch and its verb puts the next
 * one off by a lease (10 s), and a machine with too much to do takes its time.
 */
export const OVERDUE_GRACE_MS = 15_000;
/** A look that is set this long after the deadline comes too late. */
const LATE_MS = 60_000;

/** Everything that is wrong with one agent at one look; `graceMs` is how late a look may be. */
export function checksOf(sight: AgentSight, graceMs: number): CheckName[] {
  if (!isLive(sight)) return checksOfEnded(sight, graceMs);
  if (sight.record.version > PAYLOAD_VERSION) return ["newer_records"];
  return [...overdueChecks(sight, sight.record, graceMs), ...slotChecks(sight, sight.record)];
}

function checksOfEnded(sight: AgentSight, graceMs: number): CheckName[] {
  const { isCounted, log, inbox, steps, lifeMs, nextLookMs, nowMs } = sight;
  const found: CheckName[] = [];
  if (isCounted) found.push("leaked_slots");
  if (log + inbox + steps > 0 || lifeMs !== -2) found.push("orphaned_keys");
  if (nextLookMs !== undefined && nextLookMs + graceMs < nowMs) found.push("stray_members");
  return found;
}

function overdueChecks(sight: AgentSight, record: RecordSight, graceMs: number): CheckName[] {
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

function slotChecks(sight: AgentSight, record: RecordSight): CheckName[] {
  const { nextLookMs, lifeMs, nowMs } = sight;
  const found: CheckName[] = [];
  const isLate = nextLookMs !== undefined && nextLookMs > deadlineOf(record, lifeMs, nowMs) + LATE_MS;
  if (nextLookMs === undefined || isLate) found.push("unwatched");
  if (!sight.isCounted) found.push("uncounted");
  if (!record.isNamed) found.push("unnamed");
  return found;
}

const SEEN_AT_AGENTS: readonly CheckName[] = [
  "stale_queued",
  "stale_running",
  "stale_waiting",
  "overdue_age",
  "overdue_idle",
  "unwatched",
  "leaked_slots",
  "uncounted",
  "unnamed",
  "orphaned_keys",
  "newer_records",
];

/** What was found at agents. */
export function judgeAgents(facts: Facts): Finding[] {
  const having = (check: CheckName) =>
    facts.suspects
      .filter(({ checks }) => checks.includes(check))
      .map(({ sight }) => agentName(sight.address, sight.record?.agentId));
  // Without workers nobody can have looked; that is said once, about the workers.
  const unswept = facts.workers.length > 0 ? having("unswept") : [];
  const limits = {
    keys: `${formatCount(facts.bounds.keys)} keys`,
    agents: `${formatCount(facts.bounds.agents)} agents`,
  };
  return [
    ...SEEN_AT_AGENTS.flatMap((check) => findingOf(check, having(check))),
    ...findingOf("unswept", unswept),
    ...findingOf("stray_members", [...having("stray_members"), ...facts.strangers]),
    ...findingOf(
      "unreadable",
      facts.unreadable.map(({ address }) => agentName(address)),
    ),
    ...findingOf("incomplete", facts.reached, {
      what: `the examination stopped after ${facts.reached.map((bound) => limits[bound]).join(" and ")}`,
    }),
  ];
}
