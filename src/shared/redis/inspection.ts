/**
 * Looks at agents from outside, as an operator does: changes nothing but by `repair`, whose guard is the record itself.
 * Owns no state. Its neighbours: `survey.ts` finds the agents, the sweeper does what is due.
 */
import { SubagentError } from "../errors.ts";
import { AgentStatus, PAYLOAD_VERSION } from "../protocol/agent.ts";
import { type AgentAddress, deadlineMember, type Keys } from "../protocol/keys.ts";
import type { Timing } from "../protocol/limits.ts";
import { numberIn } from "./codec.ts";
import type { RedisClient } from "./connection/connection.ts";
import { HIDDEN_MS } from "./deadlines.ts";
import { isWrongType, unlessMistyped } from "./key-types.ts";
import { loadScripts, type VerbAnswer } from "./scripts.ts";
import type { WakeQueue } from "./wake-queue.ts";

/** What came of looking at many agents. */
export interface Inspected {
  snapshots: AgentSnapshot[];
  unreadable: UnreadableAgent[];
}

/** See the module's header. */
export interface AgentInspection {
  /**
   * Looks at each of `agents`; those overdue by more than `graceMs` are asked for the job of their wake. What one agent's keys
   * hold keeps no other from being looked at.
   */
  inspect(agents: readonly AgentAddress[], graceMs: number): Promise<Inspected>;
  /** Brings the keys around an agent in line with its record. Idempotent. */
  repair(agent: AgentAddress): Promise<VerbAnswer<"repair">>;
}

/** So many agents are looked at side by side: Redis serves others in between. */
const BATCH = 200;

/** An inspection over `redis`. */
export function createAgentInspection(
  redis: RedisClient,
  keys: Keys,
  wakes: Pick<WakeQueue, "isAlive">,
  timing: Timing,
): AgentInspection {
  const scripts = loadScripts(redis, keys, timing);
  const look = async (address: AgentAddress, graceMs: number): Promise<AgentSnapshot | UnreadableAgent> => {
    try {
      const snapshot = snapshotOf(address, await scripts.run("inspect", address, {}));
      if (hasUnknownStatus(snapshot)) return { address, problem: "its record has a status that is none" };
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
      const found = await inBatches(agents, BATCH, (address) => look(address, graceMs));
      return {
        snapshots: found.filter((each) => "nowMs" in each),
        unreadable: found.filter((each) => "problem" in each),
      };
    },
    repair: (address) => scripts.run("repair", address, {}),
  };
}

/** What is wrong with the one agent that was asked for; undefined where Redis, or the way to it, is in trouble. */
function problemIn(error: unknown): string | undefined {
  if (isWrongType(error)) return "a key of it is of another type";
  const isValue = error instanceof SubagentError && error.code === "protocol_violation";
  return isValue ? "its record has a number that no version writes" : undefined;
}

/** Whether something else has written into the record: a newer version alone may have other states. */
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

// What can be seen of one agent of any parent, and what follows from that alone. Pure.

/** The keys of one slot at one moment (Redis' time), and the agent's place in the deadline set a little later. */
export interface AgentSnapshot {
  address: AgentAddress;
  nowMs: number;
  /** Undefined where there is no record. */
  record: RecordSnapshot | undefined;
  /** TTL of the life key as Redis tells it: -2 no key, -1 no TTL. */
  lifeMs: number;
  /** Entries of the log, unread messages, lines of a timeline and attachments that have no record. */
  log: number;
  inbox: number;
  timeline: number;
  attachments: number;
  /** Whether it takes a place of its parent's quota. */
  isCounted: boolean;
  /** When a sweeper will check it, epoch ms; undefined when the deadline set does not have it. */
  nextCheckMs: number | undefined;
  /** Whether a job for its newest wake waits or is at work; known of overdue agents only. */
  isWakeAlive?: boolean;
}

/** The fields of a record that say where its agent stands; times are epoch ms, 0 where there is none. */
export interface RecordSnapshot {
  version: number;
  agentId: string;
  /** As it stands there: a newer version may have further ones. */
  status: string;
  deadline: number;
  leaseUntil: number;
  /** When an unanswered message ends it. */
  tooOldAt: number;
  wake: number;
  /** Id of the worker that ran it last; empty before the first run. */
  worker: string;
  /** Workers in a row that crashed with it before it advanced. */
  crashes: number;
  /** How often in a row its run has broken off in its worker, or lost its lease, before it advanced. */
  breaks: number;
  /** Whether its agent_id leads to it. */
  isNamed: boolean;
}

/** An agent that could not be looked at: a key of it is of another type, or its record says what no version writes. */
export interface UnreadableAgent {
  address: AgentAddress;
  problem: string;
}

/** Whether there is a record that has not ended. */
export function isLive(snapshot: AgentSnapshot): snapshot is AgentSnapshot & { record: RecordSnapshot } {
  return snapshot.record !== undefined && snapshot.record.status !== "ended";
}

/** How long ago a sweeper should have checked a live agent, ms; 0 or less: in time. */
export function overdueMs({ record, nowMs, lifeMs, nextCheckMs = 0 }: AgentSnapshot): number {
  if (!record || record.status === "ended") return 0;
  const deadline = deadlineOf(record, lifeMs, nowMs);
  // A place that is only hidden was taken by a sweeper, which has set no next check yet.
  const isSet = nextCheckMs > nowMs + HIDDEN_MS;
  const since = [nowMs - (isQueued(record) && isSet ? Math.max(deadline, nextCheckMs) : deadline)];
  if (record.status !== "idle" && record.tooOldAt > 0) since.push(nowMs - record.tooOldAt);
  return Math.max(...since);
}

/** Whether its oldest message has gone unanswered for longer than it may, by `graceMs`. */
export function isTooOld({ record, nowMs }: AgentSnapshot, graceMs: number): boolean {
  if (!record || record.status === "idle" || record.status === "ended" || record.tooOldAt === 0) return false;
  return record.tooOldAt + graceMs < nowMs;
}

/** Whether it waits for a worker to claim it. Until then its record keeps its first deadline: the deadline set has the next check. */
function isQueued({ status, leaseUntil }: RecordSnapshot): boolean {
  return status === "queued" || (status === "running" && leaseUntil === 0);
}

/** When a sweeper must check: an idle agent at the end of its life key, a running one at that of its lease. */
export function deadlineOf(record: RecordSnapshot, lifeMs: number, nowMs: number): number {
  if (record.status === "idle" && lifeMs > 0) return Math.max(record.deadline, nowMs + lifeMs);
  return record.status === "running" ? Math.max(record.deadline, record.leaseUntil) : record.deadline;
}

// Asks Redis about many things a batch at a time, so that others are served in between.

/** `work` on every item, at most `size` side by side; the results stand in the order of the items. */
export async function inBatches<Item, Result>(
  items: readonly Item[],
  size: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let start = 0; start < items.length; start += size) {
    results.push(...(await Promise.all(items.slice(start, start + size).map(work))));
  }
  return results;
}
