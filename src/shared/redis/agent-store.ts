/**
 * The seven verbs (and what reads beside them) as typed calls: names every key, hands them to the scripts, and turns
 * answers into closed unions. Owns no state; the records in Redis do.
 */
import { AgentRecord, type EndedReason, PAYLOAD_VERSION } from "../protocol/agent.ts";
import { type AgentAddress, type Keys, type ParentAddress, replyIdOf } from "../protocol/keys.ts";
import { INBOX_MAX_BYTES, INBOX_MAX_MESSAGES, InboxMessage } from "../protocol/message.ts";
import type { ReplyBody, ReplyStatus, StopReason } from "../protocol/reply.ts";
import { MAX_LIVE_AGENTS, TIMING, type Timing } from "../protocol/timing.ts";
import type { RedisClient } from "./connection.ts";
import { type Answer, loadScripts, type Scripts } from "./scripts.ts";

/** What `spawn` writes. `digest` covers the caller's arguments, so that one key with other arguments is a conflict. */
export interface SpawnInput {
  requestKey: string;
  digest: string;
  stem: string;
  name: string;
  /** The agent's specification, as JSON. */
  spec: string;
  idleMs: number;
}

/** What `append` commits; `entries` are [entry key, JSON] pairs, written all or none. */
export interface AppendInput {
  epoch: number;
  runningMs: number;
  entries: readonly (readonly [key: string, json: string])[];
  /** Absolute inbox cursor after this append. */
  consumeTo?: number;
  progress?: ReplyBody;
  /** One line of the content-free step list, JSON. */
  step?: string;
  /** An interim message for the parent. */
  interim?: { id: string; body: string };
}

/** Who ends what, and how. `worker` needs its epoch; the others act by authority and bump it. */
export interface SettleInput {
  by:
    | { authority: "worker"; epoch: number; run: number }
    | { authority: "parent" }
    | { authority: "sweeper" };
  target: "idle" | "ended";
  endedReason?: EndedReason;
  status: ReplyStatus;
  stopReason: StopReason;
  /** A natural end: an unread message keeps the run going (`more`). */
  natural?: boolean;
  body?: ReplyBody;
  /** The whole text, where the summary had to be cut. */
  fullText?: string;
  idleMs?: number;
}

/** Everything a worker needs to go on with an agent. */
export interface AgentState {
  record: AgentRecord;
  /** Entry key → JSON. */
  log: Map<string, string>;
  inbox: InboxMessage[];
}

/** The store over one connection. */
export interface AgentStore {
  readonly timing: Timing;
  readonly keys: Keys;
  spawn(address: AgentAddress, input: SpawnInput): Promise<Answer<"spawn">>;
  send(address: AgentAddress, message: InboxMessage, digest: string): Promise<Answer<"send">>;
  claim(address: AgentAddress, claimId: string, worker: string): Promise<Answer<"claim">>;
  renew(address: AgentAddress, epoch: number, runningMs: number): Promise<Answer<"renew">>;
  append(address: AgentAddress, input: AppendInput): Promise<Answer<"append">>;
  release(
    address: AgentAddress,
    input: { epoch: number; delayMs: number; runningMs: number; retries: number },
  ): Promise<Answer<"release">>;
  settle(address: AgentAddress, input: SettleInput): Promise<Answer<"settle">>;
  finish(address: AgentAddress): Promise<Answer<"finish">>;
  overdue(address: AgentAddress): Promise<Answer<"overdue">>;
  rewake(address: AgentAddress, expectedWake: number, jobAlive: boolean): Promise<Answer<"rewake">>;
  /** Record, log and unread inbox, or undefined where there is no such agent. */
  load(address: AgentAddress): Promise<AgentState | undefined>;
  /** The record alone; reading never touches the life key. */
  record(address: AgentAddress): Promise<AgentRecord | undefined>;
  /** Unread messages, oldest first. */
  inbox(address: AgentAddress): Promise<InboxMessage[]>;
  /** The uid behind an agent_id of this parent. */
  uidOf(parent: ParentAddress, agentId: string): Promise<string | undefined>;
  /** The uids of the parent's live agents. */
  liveUids(parent: ParentAddress): Promise<string[]>;
  /** The whole text of a reply whose summary was cut. */
  fullText(parent: ParentAddress, replyId: string): Promise<string | undefined>;
}

/** A store on `redis`; `keys` and `timing` are the installation's. */
export function createAgentStore(redis: RedisClient, keys: Keys, timing: Timing = TIMING): AgentStore {
  const scripts = loadScripts(redis);
  const readRecord = async (address: AgentAddress) =>
    parseRecord(await redis.hgetall(keys.agent(address).record));
  const readInbox = async (address: AgentAddress) =>
    (await redis.lrange(keys.agent(address).inbox, 0, -1)).map((text) =>
      InboxMessage.parse(JSON.parse(text)),
    );
  return {
    timing,
    keys,
    ...producerVerbs(scripts, keys, timing),
    ...workerVerbs(scripts, keys, timing),
    settle: (address, input) => settle(scripts, keys, timing, address, input),
    overdue: (address) => {
      const { record, life } = keys.agent(address);
      return scripts.run("overdue", { record, life }, {});
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
    record: readRecord,
    inbox: readInbox,
    async load(address) {
      const [record, log, inbox] = await Promise.all([
        readRecord(address),
        redis.hgetall(keys.agent(address).log),
        readInbox(address),
      ]);
      return record && { record, log: new Map(Object.entries(log)), inbox };
    },
    uidOf: async (parent, agentId) => (await redis.hget(keys.parent(parent).registry, agentId)) ?? undefined,
    liveUids: (parent) => redis.hkeys(keys.parent(parent).live),
    fullText: async (parent, replyId) => (await redis.get(keys.parent(parent).text(replyId))) ?? undefined,
  };
}

function parseRecord(fields: Record<string, string>): AgentRecord | undefined {
  return Object.keys(fields).length === 0 ? undefined : AgentRecord.parse(fields);
}

function producerVerbs(
  scripts: Scripts,
  keys: Keys,
  timing: Timing,
): Pick<AgentStore, "spawn" | "send" | "finish"> {
  return {
    spawn(address, input) {
      const { record, life } = keys.agent(address);
      const { request, registry, live } = keys.parent(address);
      return scripts.run(
        "spawn",
        { record, request: request(input.requestKey), registry, live, life },
        {
          uid: address.uid,
          stem: input.stem,
          name: input.name,
          spec: input.spec,
          tenant: address.tenant,
          parent_id: address.parentId,
          digest: input.digest,
          request_ttl_ms: timing.requestTtlMs,
          max_live: MAX_LIVE_AGENTS,
          idle_ms: input.idleMs,
          registry_ttl_ms: timing.registryTtlMs,
          version: PAYLOAD_VERSION,
        },
      );
    },
    send(address, message, digest) {
      const { record, inbox, life, message: messageKey } = keys.agent(address);
      return scripts.run(
        "send",
        { record, inbox, life, message: messageKey(message.message_id) },
        {
          payload: JSON.stringify(message),
          digest,
          message_ttl_ms: timing.requestTtlMs,
          max_messages: INBOX_MAX_MESSAGES,
          max_bytes: INBOX_MAX_BYTES,
          look_ms: timing.lookMs,
          max_age_ms: timing.maxAgeMs,
        },
      );
    },
    finish: (address) => scripts.run("finish", { record: keys.agent(address).record }, {}),
  };
}

function workerVerbs(
  scripts: Scripts,
  keys: Keys,
  timing: Timing,
): Pick<AgentStore, "claim" | "renew" | "append" | "release"> {
  return {
    claim: (address, claimId, worker) =>
      scripts.run(
        "claim",
        { record: keys.agent(address).record },
        { claim_id: claimId, worker, lease_ms: timing.leaseMs, version: PAYLOAD_VERSION },
      ),
    renew(address, epoch, runningMs) {
      const { record, inbox } = keys.agent(address);
      return scripts.run(
        "renew",
        { record, inbox },
        { epoch, lease_ms: timing.leaseMs, running_ms: Math.round(runningMs) },
      );
    },
    append(address, input) {
      const { record, log, inbox, steps } = keys.agent(address);
      const { replies, doorbell } = keys.parent(address);
      return scripts.run(
        "append",
        { record, log, inbox, steps, replies },
        {
          epoch: input.epoch,
          running_ms: Math.round(input.runningMs),
          consume_to: input.consumeTo ?? "",
          progress: input.progress ? JSON.stringify(input.progress) : "",
          step: input.step ?? "",
          interim_id: input.interim?.id ?? "",
          interim: input.interim?.body ?? "",
          doorbell,
          reply_ttl_ms: timing.replyTtlMs,
        },
        input.entries.flat(),
      );
    },
    release: (address, { epoch, delayMs, runningMs, retries }) =>
      scripts.run(
        "release",
        { record: keys.agent(address).record },
        {
          epoch,
          delay_ms: Math.ceil(delayMs),
          look_ms: timing.lookMs,
          running_ms: Math.round(runningMs),
          retries,
        },
      ),
  };
}

function settle(scripts: Scripts, keys: Keys, timing: Timing, address: AgentAddress, input: SettleInput) {
  const { record, log, inbox, life, steps } = keys.agent(address);
  const { live, replies, doorbell, text } = keys.parent(address);
  const { by } = input;
  const replyId = by.authority === "worker" ? replyIdOf(address.uid, by.run) : `${address.uid}.end`;
  return scripts.run(
    "settle",
    { record, log, inbox, life, live, replies, text: text(replyId), steps },
    {
      authority: by.authority,
      epoch: by.authority === "worker" ? by.epoch : 0,
      uid: address.uid,
      target: input.target,
      ended_reason: input.endedReason ?? "",
      status: input.status,
      stop_reason: input.stopReason,
      natural: input.natural ? "1" : "",
      body: input.body ? JSON.stringify(input.body) : "",
      full_text: input.fullText ?? "",
      idle_ms: input.idleMs ?? 0,
      look_ms: timing.lookMs,
      reply_ttl_ms: timing.replyTtlMs,
      doorbell,
      hints: keys.hints,
    },
  );
}
