/**
 * The seven verbs (and what reads beside them) as typed calls: names every key, hands them to the scripts, and turns
 * answers into closed unions (`verbs.ts` spells the calls). Owns no state; the records in Redis do.
 */
import { AgentRecord, AgentSpecJson, PAYLOAD_VERSION } from "../protocol/agent.ts";
import { AgentId } from "../protocol/ids.ts";
import type { AgentAddress, Keys, ParentAddress } from "../protocol/keys.ts";
import { InboxMessage } from "../protocol/message.ts";
import { TIMING, type Timing } from "../protocol/timing.ts";
import { sumUsage, type UsageTotals } from "../protocol/usage.ts";
import type { RedisClient } from "./connection.ts";
import { type QuestionVerbs, questionVerbs } from "./question-verbs.ts";
import type { Answer } from "./script-table.ts";
import { loadScripts } from "./scripts.ts";
import {
  type ProducerVerbs,
  producerVerbs,
  type SettleInput,
  settle,
  type WorkerVerbs,
  workerVerbs,
} from "./verbs.ts";

export type { AppendInput, Fence, SettleInput, SpawnInput } from "./verbs.ts";

/** Everything a worker needs to go on with an agent. */
export interface AgentState {
  record: AgentRecord;
  /** Entry key → JSON. */
  log: Map<string, string>;
  inbox: InboxMessage[];
}

/** What changes nothing, and keeps nothing alive. */
interface AgentReads {
  /** Record, log and unread inbox, or undefined where there is no such agent. */
  load(address: AgentAddress): Promise<AgentState | undefined>;
  /** The record alone. */
  record(address: AgentAddress): Promise<AgentRecord | undefined>;
  /** The agent's allowlist of tools; undefined where it has none, or none that this version can read. */
  allowlist(address: AgentAddress): Promise<string[] | undefined>;
  /** Unread messages, oldest first. */
  inbox(address: AgentAddress): Promise<InboxMessage[]>;
  /** The uid behind an agent_id of this parent. */
  uidOf(parent: ParentAddress, agentId: string): Promise<string | undefined>;
  /** The uids of the parent's live agents. */
  liveUids(parent: ParentAddress): Promise<string[]>;
  /** Their records; those that a newer version wrote in a form that this one cannot read are left out. */
  liveRecords(parent: ParentAddress): Promise<AgentRecord[]>;
  /** What the parent's runs used since the day in which `sinceMs` lies, at most `usageTtlMs` back. */
  usage(parent: ParentAddress, sinceMs: number): Promise<UsageTotals>;
  /** The whole text of a reply whose summary was cut. */
  fullText(parent: ParentAddress, replyId: string): Promise<string | undefined>;
}

/** The store over one connection. */
export interface AgentStore extends ProducerVerbs, WorkerVerbs, QuestionVerbs, AgentReads {
  readonly timing: Timing;
  readonly keys: Keys;
  settle(address: AgentAddress, input: SettleInput): Promise<Answer<"settle">>;
  overdue(address: AgentAddress): Promise<Answer<"overdue">>;
  rewake(address: AgentAddress, expectedWake: number, jobAlive: boolean): Promise<Answer<"rewake">>;
}

/** A store on `redis`; `keys` and `timing` are the installation's. */
export function createAgentStore(redis: RedisClient, keys: Keys, timing: Timing = TIMING): AgentStore {
  const scripts = loadScripts(redis);
  return {
    timing,
    keys,
    ...producerVerbs(scripts, keys, timing),
    ...workerVerbs(scripts, keys, timing),
    ...questionVerbs(scripts, keys, timing),
    settle: (address, input) => settle(scripts, keys, timing, address, input),
    overdue: (address) => {
      const { record, life } = keys.agent(address);
      return scripts.run("overdue", { record, life }, { version: PAYLOAD_VERSION, look_ms: timing.lookMs });
    },
    rewake: (address, expectedWake, jobAlive) =>
      scripts.run(
        "rewake",
        { record: keys.agent(address).record },
        {
          expected_wake: expectedWake,
          job_alive: jobAlive ? "1" : "0",
          look_ms: timing.lookMs,
          longest_look_ms: timing.longestLookMs,
        },
      ),
    ...readsOf(redis, keys),
  };
}

function readsOf(redis: RedisClient, keys: Keys): AgentReads {
  const readRecord = async (address: AgentAddress) =>
    parseRecord(await redis.hgetall(keys.agent(address).record));
  const readInbox = async (address: AgentAddress) =>
    (await redis.lrange(keys.agent(address).inbox, 0, -1)).map((text) =>
      InboxMessage.parse(JSON.parse(text)),
    );
  return {
    record: readRecord,
    allowlist: async (address) =>
      AgentSpecJson.safeParse(await redis.hget(keys.agent(address).record, "spec")).data?.tools,
    inbox: readInbox,
    async load(address) {
      const [record, log, inbox] = await Promise.all([
        readRecord(address),
        redis.hgetall(keys.agent(address).log),
        readInbox(address),
      ]);
      return record && { record, log: new Map(Object.entries(log)), inbox };
    },
    uidOf: async (parent, agentId) =>
      AgentId.safeParse(agentId).success
        ? ((await redis.hget(keys.parent(parent).registry, agentId)) ?? undefined)
        : undefined,
    liveUids: (parent) => redis.hkeys(keys.parent(parent).live),
    liveRecords: (parent) => readLive(redis, keys, parent),
    usage: async (parent, sinceMs) => sumUsage(await redis.hgetall(keys.parent(parent).usage), sinceMs),
    fullText: async (parent, replyId) => (await redis.get(keys.parent(parent).text(replyId))) ?? undefined,
  };
}

async function readLive(redis: RedisClient, keys: Keys, parent: ParentAddress): Promise<AgentRecord[]> {
  const uids = await redis.hkeys(keys.parent(parent).live);
  const records = await Promise.all(uids.map((uid) => redis.hgetall(keys.agent({ ...parent, uid }).record)));
  return records.flatMap((fields) => AgentRecord.safeParse(fields).data ?? []);
}

function parseRecord(fields: Record<string, string>): AgentRecord | undefined {
  return Object.keys(fields).length === 0 ? undefined : AgentRecord.parse(fields);
}
