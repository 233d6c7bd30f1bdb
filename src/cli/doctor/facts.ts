/** What the doctor has measured, before any check: what is wrong with one agent from one look at it, and how it is named. Pure. */
import { PAYLOAD_VERSION } from "../../shared/protocol/agent.ts";
import type { AgentAddress, ParentAddress } from "../../shared/protocol/keys.ts";
import type { ServerReport } from "../../shared/redis/connection/server-check.ts";
import {
  type AgentSnapshot,
  deadlineOf,
  isLive,
  isTooOld,
  overdueMs,
  type RecordSnapshot,
  type UnreadableAgent,
} from "../../shared/redis/inspection.ts";
import type { PauseState } from "../../shared/redis/pause.ts";
import type { LimiterState } from "../../shared/redis/provider-limiter.ts";
import type {
  KeySurvey,
  OldReplies,
  RefusedEntries,
  SurveyBounds,
  WakesSnapshot,
  WorkerSnapshot,
} from "../../shared/redis/survey.ts";

/** An agent with troubles that were there at both looks. */
export interface TroubledAgent {
  snapshot: AgentSnapshot;
  troubles: readonly AgentTrouble[];
}

/** What was measured. Times are epoch ms. */
export interface Facts extends Pick<KeySurvey, "mistyped" | "reached"> {
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
  agents: readonly AgentSnapshot[];
  suspects: readonly TroubledAgent[];
  unreadable: readonly UnreadableAgent[];
  /** Members of the deadline set that name no agent and are overdue. */
  strangers: readonly string[];
  /** Number of parents with a reply channel, and those whose replies are old. */
  channels: number;
  oldReplies: readonly OldReplies[];
  /** Intake entries of which no parent was told. */
  refusedEntries: RefusedEntries;
  workers: readonly WorkerSnapshot[];
  wakes: WakesSnapshot;
  /** Since when an operator has paused the installation. */
  pause: PauseState | undefined;
  /** Provider limiters that are not healthy. */
  limiters: readonly LimiterState[];
  /** Whether the same wake kept waiting beside free slots at every check. */
  areWakesStuck: boolean;
  /** How far the survey was allowed to go. */
  bounds: SurveyBounds;
  workspaces: WorkspaceFacts;
  /** The budgets that bind live agents. */
  budgets: readonly BudgetUse[];
}

/** A budget by whom it binds; `used`: the share that is spent, calls under way included; infinite: it cannot be read. */
export interface BudgetUse {
  name: string;
  used: number;
}

/** The directory of an agent's files. */
export interface WorkspaceSnapshot extends ParentAddress {
  /** `<tenant>/<parent>/agents/<agent_id>`. */
  path: string;
  agentId: string;
  /** Undefined: no stamp that can be read. */
  uid: string | undefined;
  /** `unknown`: this installation does not know the agent. */
  agentState: "live" | "ended" | "unknown";
  /** Whether `--fix` may delete it: nothing in it has changed for 30 days, and the agent of its stamp has ended. */
  isDeletable: boolean;
}

/** The workspaces of this machine. */
export interface WorkspaceFacts {
  root: string;
  /** False: there is no such directory; nothing was looked at and nothing is missing. */
  isThere: boolean;
  directories: readonly WorkspaceSnapshot[];
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
/** A check that is set this long after the deadline, or from now where that is over, comes too late. */
const LATE_MS = 60_000;

/** Everything that is wrong with one agent at one look; `graceMs` is how late its check may be. */
export function troublesOf(snapshot: AgentSnapshot, graceMs: number): AgentTrouble[] {
  if (!isLive(snapshot)) return leftBehind(snapshot, graceMs);
  if (snapshot.record.version > PAYLOAD_VERSION) return ["newer_records"];
  const { nextCheckMs, lifeMs, nowMs, record } = snapshot;
  const found = overdueTroubles(snapshot, record, graceMs);
  if (nextCheckMs === undefined || nextCheckMs > Math.max(nowMs, deadlineOf(record, lifeMs, nowMs)) + LATE_MS)
    found.push("unwatched");
  if (record.breaks >= BREAKS) found.push("breaking_off");
  if (!snapshot.isCounted) found.push("uncounted");
  if (!record.isNamed) found.push("unnamed");
  return found;
}

function leftBehind(snapshot: AgentSnapshot, graceMs: number): AgentTrouble[] {
  const { isCounted, log, inbox, attachments, timeline, lifeMs, nextCheckMs, nowMs } = snapshot;
  const found: AgentTrouble[] = [];
  if (isCounted) found.push("leaked_slots");
  if (log + inbox + attachments + timeline > 0 || lifeMs !== -2) found.push("orphaned_keys");
  if (nextCheckMs !== undefined && nextCheckMs + graceMs < nowMs) found.push("stray_members");
  return found;
}

function overdueTroubles(snapshot: AgentSnapshot, record: RecordSnapshot, graceMs: number): AgentTrouble[] {
  if (isTooOld(snapshot, graceMs)) return ["overdue_age"];
  if (overdueMs(snapshot) <= graceMs) return [];
  switch (record.status) {
    case "idle":
      return ["overdue_idle"];
    case "waiting":
      return ["stale_waiting"];
    case "running":
      return [record.leaseUntil > 0 || !snapshot.isWakeAlive ? "stale_running" : "unswept"];
    default:
      return [snapshot.isWakeAlive ? "unswept" : "stale_queued"];
  }
}
