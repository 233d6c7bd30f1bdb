/** The doctor's measurements before the checks: the troubles of an agent in one snapshot, and its name. Pure. */
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
  RefusedEntries,
  SurveyBounds,
  UnackedReplies,
  UnpushedReplies,
  WakesSnapshot,
  WorkerSnapshot,
} from "../../shared/redis/survey.ts";

/** An agent and the troubles that both snapshots show. */
export interface TroubledAgent {
  snapshot: AgentSnapshot;
  troubles: readonly AgentTrouble[];
}

/** The measurements. Times are epoch ms. */
export interface Facts extends Pick<KeySurvey, "mistyped" | "reached"> {
  /** Redis' time, and this host's time at the same moment. */
  nowMs: number;
  hostNowMs: number;
  host: string;
  /** True if NODE_ENV is `production`. */
  isProduction: boolean;
  /** Reason why a worker on this host offers no bash; undefined: it offers bash. */
  bash?: string | undefined;
  /** One report for each node. */
  servers: readonly ServerReport[];
  agents: readonly AgentSnapshot[];
  suspects: readonly TroubledAgent[];
  unreadable: readonly UnreadableAgent[];
  /** Members of the deadline set that name no agent and are overdue. */
  strayMembers: readonly string[];
  /** Number of parents with a reply channel; then the parents with old replies, and those whose webhook does not get them. */
  channels: number;
  oldReplies: readonly UnackedReplies[];
  unpushed: readonly UnpushedReplies[];
  /** Failed intake entries without a parent that could get the error. */
  refusedEntries: RefusedEntries;
  workers: readonly WorkerSnapshot[];
  wakes: WakesSnapshot;
  /** The operator's pause of the installation; undefined: not paused. */
  pause: PauseState | undefined;
  /** Provider limiters that are not healthy. */
  limiters: readonly LimiterState[];
  /** True if every check saw the same wake waiting although slots were free. */
  areWakesStuck: boolean;
  /** Bounds of the survey. */
  bounds: SurveyBounds;
  workspaces: WorkspaceFacts;
  /** The budgets that bind live agents. */
  budgets: readonly BudgetUse[];
}

/** A budget, named by whom it binds. `used`: the spent share, with the calls in progress; Infinity: unreadable. */
export interface BudgetUse {
  name: string;
  used: number;
}

/** The directory of an agent's files. */
export interface WorkspaceSnapshot extends ParentAddress {
  /** `<tenant>/<parent>/agents/<agent_id>`, with the names of their directories. */
  path: string;
  agentId: string;
  /** Uid in the directory's stamp; undefined: no readable stamp. */
  uid: string | undefined;
  /** `unknown`: this installation does not know the agent; `empty`: so it is, and no file is there, as after `run` without REDIS_URL. */
  agentState: "live" | "ended" | "unknown" | "empty";
  /** True if `--fix` may delete it: unchanged for 30 days, and the agent of its stamp has ended. */
  isDeletable: boolean;
}

/** The workspaces on this host. */
export interface WorkspaceFacts {
  root: string;
  /** False: the directory `root` does not exist; nothing was examined, nothing counts as missing. */
  isThere: boolean;
  /** True if its disk is full. */
  isFull: boolean;
  directories: readonly WorkspaceSnapshot[];
  /** Live agents that have written files but have no stamp on this host, as `parent/agent`. */
  missing: readonly string[];
  /** True if only the first directories were examined. */
  isCut: boolean;
}

/** Returns the parent's id, with its tenant unless that is `default`. */
export function ownerName({ tenant, parentId }: ParentAddress): string {
  return tenant === "default" ? parentId : `${tenant}/${parentId}`;
}

/** Returns the agent as `parent/agent`, with its uid if its name is gone. */
export function agentName(address: AgentAddress, agentId = ""): string {
  return `${ownerName(address)}/${agentId || address.uid}`;
}

/** A trouble of an agent; the table of checks explains each. */
export type AgentTrouble =
  | "stale_queued"
  | "stale_running"
  | "stale_waiting"
  | "overdue_age"
  | "overdue_idle"
  | "unswept"
  | "deadline_missing"
  | "uncounted"
  | "unnamed"
  | "leaked_slots"
  | "orphaned_keys"
  | "stray_members"
  | "breaking_off"
  | "newer_records";

/** How late a sweeper's check may be, ms: one between a hint and its verb delays the next by a lease (10 s). */
export const OVERDUE_GRACE_MS = 15_000;
/** Number of breaks in a row that is a trouble; after the first, another worker takes the run. */
const BREAKS = 2;
/** A check this long after the deadline (after now, if the deadline is past) is too late, ms. */
const LATE_MS = 60_000;

/** Returns the troubles of an agent in one snapshot; its check may be `graceMs` late. */
export function troublesOf(snapshot: AgentSnapshot, graceMs: number): AgentTrouble[] {
  if (!isLive(snapshot)) return leftBehind(snapshot, graceMs);
  if (snapshot.record.version > PAYLOAD_VERSION) return ["newer_records"];
  const { nextCheckMs, lifeMs, nowMs, record } = snapshot;
  const found = overdueTroubles(snapshot, record, graceMs);
  if (nextCheckMs === undefined || nextCheckMs > Math.max(nowMs, deadlineOf(record, lifeMs, nowMs)) + LATE_MS)
    found.push("deadline_missing");
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
