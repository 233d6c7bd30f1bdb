/** What the doctor has measured, before any check: types, and how parents, agents and spans of time are named. */
import type { AgentAddress, ParentAddress } from "../../shared/protocol/keys.ts";
import type { ServerReport } from "../../shared/redis/connection/server-check.ts";
import type { AgentSight, UnreadableAgent } from "../../shared/redis/inspection.ts";
import type { PauseState } from "../../shared/redis/pause.ts";
import type { LimiterState } from "../../shared/redis/provider-limiter.ts";
import type {
  KeySurvey,
  OldReplies,
  SurveyBounds,
  WakesSight,
  WorkerSight,
} from "../../shared/redis/survey.ts";
import { formatPlural } from "../terminal/numbers.ts";
import type { AgentTrouble } from "./agents.ts";

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

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

/** A parent by its id, with its tenant unless that is the default one. */
export function ownerName({ tenant, parentId }: ParentAddress): string {
  return tenant === "default" ? parentId : `${tenant}/${parentId}`;
}

/** An agent as `parent/agent`; by uid where its name is gone. */
export function agentName(address: AgentAddress, agentId = ""): string {
  return `${ownerName(address)}/${agentId || address.uid}`;
}

/** A span in its largest whole unit: `3 d`, `7 h`, `12 s`. */
export function formatSpan(ms: number): string {
  const [unit, size] = UNITS.find(([, length]) => ms >= length) ?? ["s", 1_000];
  return `${Math.floor(ms / size)} ${unit}`;
}

/**
 * A template with its number: `#agent (is|are) late` for 2 is `2 agents are late`; `#(entry|entries)` is a noun with a
 * plural of its own.
 */
export function sentence(template: string, count: number): string {
  return template.replace(
    /#(\w+)|(#?)\(([^()|]+)\|([^()|]+)\)/g,
    (_, noun: string | undefined, counted: string, one: string, many: string) => {
      if (noun !== undefined) return formatPlural(count, noun);
      return counted ? formatPlural(count, one, many) : count === 1 ? one : many;
    },
  );
}
