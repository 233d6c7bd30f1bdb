/** What can be seen of one agent, whoever it belongs to, and what follows from that alone. Pure. */
import type { AgentAddress } from "../protocol/keys.ts";

/** The keys of one slot at one moment (Redis' time), and the agent's place in the deadline set a little later. */
export interface AgentSight {
  address: AgentAddress;
  nowMs: number;
  /** Undefined where there is no record. */
  record: RecordSight | undefined;
  /** TTL of the life key as Redis tells it: -2 no key, -1 no TTL. */
  lifeMs: number;
  /** Entries of the log, unread messages, lines of the step list that has no record. */
  log: number;
  inbox: number;
  steps: number;
  /** Whether it takes a place of its parent's quota. */
  isCounted: boolean;
  /** When somebody will look, epoch ms; undefined when the deadline set does not have it. */
  nextLookMs: number | undefined;
  /** Whether a job for its newest wake waits or is at work; known of overdue agents only. */
  isWakeAlive?: boolean;
}

/** The fields of a record that say where its agent stands; times are epoch ms, 0 where there is none. */
export interface RecordSight {
  version: number;
  agentId: string;
  /** As it stands there: a newer version may have further ones. */
  status: string;
  deadline: number;
  leaseUntil: number;
  unansweredSince: number;
  maxAgeMs: number;
  wake: number;
  /** Id of the worker that ran it last; empty before the first run. */
  worker: string;
  /** Workers in a row that died with it before it committed a step. */
  barrenDeaths: number;
  /** Whether its agent_id leads to it. */
  isNamed: boolean;
}

/** An agent that could not be looked at: a key of it is of another type, or its record says what no version writes. */
export interface UnreadableAgent {
  address: AgentAddress;
  problem: string;
}

/** Whether there is a record that has not ended. */
export function isLive(sight: AgentSight): sight is AgentSight & { record: RecordSight } {
  return sight.record !== undefined && sight.record.status !== "ended";
}

/** How long ago somebody should have looked at a live agent, ms; 0 or less: in time. */
export function overdueMs({ record, nowMs, lifeMs }: AgentSight): number {
  if (!record || record.status === "ended") return 0;
  const since = [nowMs - deadlineOf(record, lifeMs, nowMs)];
  const isAsked = record.status !== "idle" && record.unansweredSince > 0;
  if (isAsked) since.push(nowMs - record.unansweredSince - record.maxAgeMs);
  return Math.max(...since);
}

/** Whether its oldest message has gone unanswered for longer than it may, by `graceMs`. */
export function isTooOld({ record, nowMs }: AgentSight, graceMs: number): boolean {
  if (!record || record.status === "idle" || record.status === "ended" || record.unansweredSince === 0)
    return false;
  return record.unansweredSince + record.maxAgeMs + graceMs < nowMs;
}

/** When somebody must look: an idle agent at the end of its life key, a running one at that of its lease. */
export function deadlineOf(record: RecordSight, lifeMs: number, nowMs: number): number {
  if (record.status === "idle" && lifeMs > 0) return Math.max(record.deadline, nowMs + lifeMs);
  return record.status === "running" ? Math.max(record.deadline, record.leaseUntil) : record.deadline;
}
