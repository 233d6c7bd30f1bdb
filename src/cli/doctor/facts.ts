/** What the doctor has measured, before any check: what is wrong with one agent from one look at it, and how it is named. Pure. */
import { PAYLOAD_VERSION } from "../../shared/protocol/agent.ts";
import type { AgentAddress, ParentAddress } from "../../shared/protocol/keys.ts";
import type { ServerReport } from "../../shared/redis/connection/server-check.ts";
import {
  type AgentSight,
  deadlineOf,
  isLive,
  isTooOld,
  overdueMs,
  type RecordSight,
  type UnreadableAgent,
} from "../../shared/redis/inspection.ts";
import type { PauseState } from "../../shared/redis/pause.ts";
import type { LimiterState } from "../../shared/redis/provider-limiter.ts";
import type {
  KeySurvey,
  OldReplies,
  RefusedEntries,
  SurveyBounds,
  WakesSight,
  WorkerSight,
} from "../../shared/redis/survey.ts";

/** An agent with troubles that were there at both looks. */
export interface SuspectAgent {
  sight: AgentSight;
  troubles: readonly AgentTrouble[];
}

/** What was measured. Times are epoch ms. */
export interface Facts {
  /** Redis' time, and this machine's at the same moment. */
  nowMs: number;
  hostNowMs: number;
  host: string;
  /** Whether NODE_ENV is `production`. */
  isProduction: boolean;
  /** Why a worker of this machine would offer no bash; undefined: it would. */
  bash?: string | undefined;
  /** One report a node. */
  servers: readonly ServerReport[];
  agents: readonly AgentSight[];
  suspects: readonly SuspectAgent[];
  unreadable: readonly UnreadableAgent[];
  /** Keys of parents and agents that have another type than they must. */
  misfits: KeySurvey["misfits"];
  /** Members of the deadline set that name no agent and are overdue. */
  strangers: readonly string[];
  /** Number of parents with a reply channel, and those whose replies are old. */
  channels: number;
  oldReplies: readonly OldReplies[];
  /** Intake entries that nobody was told of. */
  refusedEntries: RefusedEntries;
  workers: readonly WorkerSight[];
  wakes: WakesSight;
  /** Since when an operator has paused the installation. */
  pause: PauseState | undefined;
  /** Provider limiters that are not healthy. */
  limiters: readonly LimiterState[];
  /** Whether the same wake kept waiting beside free places, at every look. */
  areWakesStuck: boolean;
  /** How far the survey was allowed to go, and which of the bounds it reached. */
  bounds: SurveyBounds;
  reached: readonly (keyof SurveyBounds)[];
  workspaces: WorkspaceFacts;
  /** The budgets that bind live agents. */
  budgets: readonly BudgetSight[];
}

/** A budget by whom it binds; `used`: the share that is spent, calls under way included, 1 and more at its end. */
export interface BudgetSight {
  name: string;
  used: number;
}

/** The directory of an agent's files. */
export interface WorkspaceSight extends ParentAddress {
  /** `<tenant>/<parent>/agents/<agent_id>`. */
  path: string;
  agentId: string;
  /** Undefined: no stamp that can be read. */
  uid: string | undefined;
  /** `unknown`: this installation does not know the agent. */
  fate: "live" | "ended" | "unknown";
  /** Whether nothing in it has changed for 30 days; never of a live agent. */
  isOld: boolean;
}

/** The workspaces of this machine. */
export interface WorkspaceFacts {
  root: string;
  /** False: there is no such directory, and nothing was looked at. */
  isThere: boolean;
  directories: readonly WorkspaceSight[];
  /** Live agents with a log whose stamp is not here, as `parent/agent`. */
  missing: readonly string[];
  /** Whether only the first ones were looked at. */
  isCut: boolean;
}

/** A parent by its id, with its tenant unless that is the default one. */
export function ownerName({ tenant, parentId }: ParentAddress): string {
  return tenant === "default" ? parentId : `${tenant}/${parentId}`;
}

/** An agent as `parent/agent`; by uid where its name is gone. */
export function agentName(address: AgentAddress, agentId = ""): string {
  return `${ownerName(address)}/${agentId || address.uid}`;
}

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
