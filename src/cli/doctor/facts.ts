/** What the doctor has seen, before it judges. Types only. */
import type { AgentSight, UnreadableAgent } from "../../shared/redis/agent-sight.ts";
import type { OldReplies, WakesSight, WorkerSight } from "../../shared/redis/installation-sight.ts";
import type { SurveyBounds } from "../../shared/redis/key-survey.ts";
import type { PauseState } from "../../shared/redis/pause.ts";
import type { GateState } from "../../shared/redis/provider-gate.ts";
import type { ServerReport } from "../../shared/redis/server-check.ts";
import type { CheckName } from "./checks.ts";

/** An agent at which the same trouble was seen at every look. */
export interface SuspectAgent {
  sight: AgentSight;
  checks: readonly CheckName[];
}

/** What stands in Redis. Times are epoch ms. */
export interface Facts {
  /** Redis' time, and this machine's at the same moment. */
  nowMs: number;
  hostNowMs: number;
  host: string;
  /** Whether NODE_ENV is `production`. */
  isProduction: boolean;
  /** One report a node. */
  servers: readonly ServerReport[];
  agents: readonly AgentSight[];
  suspects: readonly SuspectAgent[];
  unreadable: readonly UnreadableAgent[];
  /** Members of the deadline set that name no agent and are overdue. */
  strangers: readonly string[];
  /** Parents with a reply channel, and those whose replies nobody acks. */
  channels: number;
  oldReplies: readonly OldReplies[];
  workers: readonly WorkerSight[];
  wakes: WakesSight;
  /** Since when an operator has paused the installation. */
  pause: PauseState | undefined;
  /** Provider gates that are not healthy. */
  gates: readonly GateState[];
  /** Whether the same wake kept waiting while there were free places, at every look. */
  areWakesStuck: boolean;
  /** How far the survey was allowed to go, and which of the bounds it reached. */
  bounds: SurveyBounds;
  reached: readonly (keyof SurveyBounds)[];
}

/** The directory of an agent's files. */
export interface WorkspaceSight {
  /** `<tenant>/<parent>/agents/<agent_id>`. */
  path: string;
  tenant: string;
  parentId: string;
  agentId: string;
  /** Undefined: no stamp that can be read. */
  uid: string | undefined;
  /** What became of the agent; `unknown`: this installation does not know it. */
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
