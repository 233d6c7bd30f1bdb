/**
 * Inspects agents from outside, as an operator does. Only `repair` changes anything, and the record itself guards it. Owns
 * no state. Its neighbours: `survey.ts` finds the agents, the sweeper does due work.
 */
import { inBatches } from "../batch.ts";
import { isWrongType, SubagentError, unlessMistyped } from "../errors.ts";
import { AgentStatus, PAYLOAD_VERSION } from "../protocol/agent.ts";
import { type AgentAddress, deadlineMember, type Keys } from "../protocol/keys.ts";
import type { Timing } from "../protocol/limits.ts";
import { numberIn } from "./codec.ts";
import type { RedisClient } from "./connection/connection.ts";
import { HIDDEN_MS } from "./deadlines.ts";
import { loadScripts, type VerbAnswer } from "./scripts.ts";
import type { WakeQueue } from "./wake-queue.ts";

/** Result of inspecting many agents. */
export interface Inspected {
  snapshots: AgentSnapshot[];
  unreadable: UnreadableAgent[];
}

/** See the module's header. */
export interface AgentInspection {
  /**
   * Inspects each of `agents`; for those overdue by more than `graceMs` it also checks the job of their wake. Bad keys of
   * one agent do not stop the inspection of the others.
   */
  inspect(agents: readonly AgentAddress[], graceMs: number): Promise<Inspected>;
  /** Brings the keys around an agent in line with its record. Idempotent. */
  repair(agent: AgentAddress): Promise<VerbAnswer<"repair">>;
}

/** Agents that are inspected in parallel: Redis serves other clients in between. */
const BATCH = 200;

/** Returns an inspection over `redis`. */
export function createAgentInspection(
  redis: RedisClient,
  keys: Keys,
  wakes: Pick<WakeQueue, "isAlive">,
  timing: Timing,
): AgentInspection {
  const scripts = loadScripts(redis, keys, timing);
  const inspectOne = async (
    address: AgentAddress,
    graceMs: number,
  ): Promise<AgentSnapshot | UnreadableAgent> => {
    try {
      const snapshot = snapshotOf(address, await scripts.run("inspect", address, {}));
      if (hasUnknownStatus(snapshot)) return { address, problem: "its record has an unknown status" };
      const nextCheck = await unlessMistyped(redis.zscore(keys.deadlines, deadlineMember(address)), null);
      const seen = { ...snapshot, nextCheckMs: nextCheck === null ? undefined : numberIn(nextCheck) };
      if (!seen.record || overdueMs(seen) <= graceMs) return seen;
      const isAlive = wakes.isAlive({ uid: address.uid, wake: seen.record.wake });
      return { ...seen, isWakeAlive: await unlessMistyped(isAlive, false) };
    } catch (error) {
      const problem = problemIn(error);
      if (problem === undefined) throw error;
      return { address, problem };
    }
  };
  return {
    async inspect(agents, graceMs) {
      const found = await inBatches(agents, BATCH, (address) => inspectOne(address, graceMs));
      return {
        snapshots: found.filter((each) => "nowMs" in each),
        unreadable: found.filter((each) => "problem" in each),
      };
    },
    repair: (address) => scripts.run("repair", address, {}),
  };
}

/** Returns the problem of the inspected agent; undefined if Redis or the connection has a problem. */
function problemIn(error: unknown): string | undefined {
  if (isWrongType(error)) return "a key of it is of another type";
  const isValue = error instanceof SubagentError && error.code === "protocol_violation";
  return isValue ? "its record has a number that no version writes" : undefined;
}

/** Returns true if another program has written the record: only a newer version may have other states. */
function hasUnknownStatus({ record }: AgentSnapshot): boolean {
  return (
    record !== undefined &&
    record.version <= PAYLOAD_VERSION &&
    !AgentStatus.options.some((status) => status === record.status)
  );
}

function snapshotOf(address: AgentAddress, seen: VerbAnswer<"inspect">): AgentSnapshot {
  const around = {
    address,
    nowMs: seen.now,
    lifeMs: seen.life_ms,
    log: seen.log,
    inbox: seen.inbox,
    isCounted: seen.counted,
    nextCheckMs: undefined,
  };
  if (seen.status === "gone")
    return { ...around, record: undefined, timeline: seen.timeline, attachments: seen.attachments };
  return {
    ...around,
    timeline: 0,
    attachments: 0,
    record: {
      version: seen.version,
      agentId: seen.agent_id,
      status: seen.agent_status,
      deadline: seen.deadline,
      leaseUntil: seen.lease_until,
      tooOldAt: seen.too_old_at,
      wake: seen.wake,
      worker: seen.worker,
      crashes: seen.crashes,
      breaks: seen.breaks,
      isNamed: seen.named,
    },
  };
}

// Snapshots of single agents of any parent, and conclusions from one snapshot alone. Pure.

/** An agent's keys in one slot at one moment (Redis' time), and its entry in the deadline set a little later. */
export interface AgentSnapshot {
  address: AgentAddress;
  nowMs: number;
  /** Undefined if the agent has no record. */
  record: RecordSnapshot | undefined;
  /** TTL of the life key as Redis answers it: -2 no key, -1 no TTL. */
  lifeMs: number;
  /** Numbers of log entries and unread messages; of timeline lines and attachments only if there is no record. */
  log: number;
  inbox: number;
  timeline: number;
  attachments: number;
  /** True if it counts against its parent's quota. */
  isCounted: boolean;
  /** Time at which a sweeper will check it, epoch ms; undefined if the deadline set does not have it. */
  nextCheckMs: number | undefined;
  /** True if a job for its newest wake waits or is active; set for overdue agents only. */
  isWakeAlive?: boolean;
}

/** Fields of a record that describe its agent's state; times are epoch ms, 0 for none. */
export interface RecordSnapshot {
  version: number;
  agentId: string;
  /** As stored: a newer version may have other states. */
  status: string;
  deadline: number;
  leaseUntil: number;
  /** Time at which an unanswered message ends it. */
  tooOldAt: number;
  wake: number;
  /** Id of the worker that ran it last; empty before the first run. */
  worker: string;
  /** Number of workers in a row that crashed with it before it advanced. */
  crashes: number;
  /** How often in a row its run has broken off in its worker, or lost its lease, before it advanced. */
  breaks: number;
  /** True if its agent_id leads to it in the registry. */
  isNamed: boolean;
}

/** An agent that could not be inspected: a key has the wrong type, or its record has a value that no version writes. */
export interface UnreadableAgent {
  address: AgentAddress;
  problem: string;
}

/** Returns true if the agent has a record and has not ended. */
export function isLive(snapshot: AgentSnapshot): snapshot is AgentSnapshot & { record: RecordSnapshot } {
  return snapshot.record !== undefined && snapshot.record.status !== "ended";
}

/** Returns how long ago a sweeper should have checked a live agent, ms; 0 or less: in time. */
export function overdueMs({ record, nowMs, lifeMs, nextCheckMs = 0 }: AgentSnapshot): number {
  if (!record || record.status === "ended") return 0;
  const deadline = deadlineOf(record, lifeMs, nowMs);
  // A sweeper took a member that is only hidden, and has set no next check yet.
  const isSet = nextCheckMs > nowMs + HIDDEN_MS;
  const since = [nowMs - (isQueued(record) && isSet ? Math.max(deadline, nextCheckMs) : deadline)];
  if (record.status !== "idle" && record.tooOldAt > 0) since.push(nowMs - record.tooOldAt);
  return Math.max(...since);
}

/** Returns true if its oldest message is unanswered longer than allowed, by more than `graceMs`. */
export function isTooOld({ record, nowMs }: AgentSnapshot, graceMs: number): boolean {
  if (!record || record.status === "idle" || record.status === "ended" || record.tooOldAt === 0) return false;
  return record.tooOldAt + graceMs < nowMs;
}

/** Returns true if it waits for a claim. Meanwhile its record keeps its first deadline; the deadline set has the next check. */
function isQueued({ status, leaseUntil }: RecordSnapshot): boolean {
  return status === "queued" || (status === "running" && leaseUntil === 0);
}

/** Returns the time of its check: for an idle agent the end of its life key, for a running one the end of its lease. */
export function deadlineOf(record: RecordSnapshot, lifeMs: number, nowMs: number): number {
  if (record.status === "idle" && lifeMs > 0) return Math.max(record.deadline, nowMs + lifeMs);
  return record.status === "running" ? Math.max(record.deadline, record.leaseUntil) : record.deadline;
}
