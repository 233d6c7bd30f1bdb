/**
 * The agents of an installation as typed calls: each verb of the table under its name, and reads. The records in Redis have
 * the state; this module has none.
 */
import { unlessMistyped } from "../errors.ts";
import { AgentRecord, AgentSpecJson, AgentStatus, PAYLOAD_VERSION, readKept } from "../protocol/agent.ts";
import { AgentId } from "../protocol/ids.ts";
import {
  type AgentAddress,
  type AgentKeys,
  agentOf,
  type Keys,
  type ParentAddress,
  type ParentKeys,
} from "../protocol/keys.ts";
import { TIMING, type Timing } from "../protocol/limits.ts";
import { answerText, entryKey, storedJson, ToolStartedEntry } from "../protocol/log.ts";
import { Attached, InboxMessage } from "../protocol/message.ts";
import { NO_SUMMARY } from "../protocol/reply.ts";
import { jsonIn } from "../protocol/text.ts";
import { sumUsage, type UsageTotals } from "../protocol/usage.ts";
import { int } from "./codec.ts";
import type { RedisClient } from "./connection/connection.ts";
import { redisNowMs } from "./redis-time.ts";
import { loadScripts, type Scripts, type VerbAnswer, type VerbInput } from "./scripts.ts";
import { AGENT_VERBS } from "./verbs.ts";

/** Entries of one page of a long log: at most some 10 ms of Redis' time where each is a result of 50,000 characters. */
const PAGE_ENTRIES = 100;

/** Everything a worker needs to continue an agent. */
export interface StoredAgent {
  record: AgentRecord;
  /** Entry key → JSON. */
  log: ReadonlyMap<string, string>;
  inbox: InboxMessage[];
}

type ClaimedAnswer = Extract<VerbAnswer<"claim">, { status: "claimed" }>;

/** Reads: they change nothing and extend no TTL. */
interface AgentReads {
  /** Decodes the answer of a claim, and reads a long log. Rejects if the record or a message is malformed. */
  claimed(address: AgentAddress, answer: ClaimedAnswer): Promise<StoredAgent>;
  /** Reads record, log and unread inbox; undefined if the agent does not exist. */
  load(address: AgentAddress): Promise<StoredAgent | undefined>;
  /** Reads of the record only the state of the agent's run; undefined if the agent does not exist. */
  runState(address: AgentAddress): Promise<RunState | undefined>;
  /** Returns true if a worker holds the agent's run under a lease that is not over. */
  isHeld(address: AgentAddress): Promise<boolean>;
  /** Reads the record only. */
  record(address: AgentAddress): Promise<AgentRecord | undefined>;
  /** Reads the agent's allowlist of tools; undefined if it has none, or none that this version can read. */
  allowlist(address: AgentAddress): Promise<string[] | undefined>;
  /** Reads the log of an agent at one moment, or after its end its transcript; empty if neither is kept for readers. Entry key → JSON. */
  conversation(address: AgentAddress): Promise<ReadonlyMap<string, string>>;
  /** Reads a part of it: `pick` selects by the entry keys, then `within` by their sizes in bytes; undefined if nothing is kept. */
  conversationPart(
    address: AgentAddress,
    pick: (keys: readonly string[]) => readonly string[],
    within: (keys: readonly string[], bytes: readonly number[]) => readonly string[],
  ): Promise<ReadonlyMap<string, string> | undefined>;
  /** Returns true if one of these tools has begun in the log. Reads the entry keys and those start marks that are not too long. */
  hasBegun(address: AgentAddress, tools: ReadonlySet<string>): Promise<boolean>;
  /**
   * Reads the job of a queued agent that is overdue at `nowMs` (epoch ms of Redis) and needs no other check, as `overdue`
   * would; undefined if the script must be asked. One HMGET costs a tenth of the script, and a backlog is made of such
   * agents.
   */
  waitingJob(address: AgentAddress, nowMs: number): Promise<WaitingJob | undefined>;
  /** Reads the unread messages, oldest first. */
  inbox(address: AgentAddress): Promise<InboxMessage[]>;
  /** Reads attachments of messages by their names; undefined for a missing one. */
  attached(address: AgentAddress, names: readonly string[]): Promise<(Attached | undefined)[]>;
  /** Reads the uid of an agent_id of this parent. */
  uidOf(parent: ParentAddress, agentId: string): Promise<string | undefined>;
  /**
   * Reads the conditions of a spawn: the number of the parent's live agents, without those whose idle time is over, and whether
   * this request key was used before.
   */
  occupancy(parent: ParentAddress, requestKey: string): Promise<{ live: number; isKnown: boolean }>;
  /** Reads the agent that a spawn with this request key made; undefined if none is remembered. `created_at`: epoch ms. */
  spawnedWith(parent: ParentAddress, requestKey: string): Promise<RememberedSpawn | undefined>;
  /** Reads the uids of the parent's live agents. */
  liveUids(parent: ParentAddress): Promise<string[]>;
  /** Reads their agent ids, of each record that field alone. */
  liveIds(parent: ParentAddress): Promise<string[]>;
  /** Reads their records, without those that this version cannot read. */
  liveRecords(parent: ParentAddress): Promise<AgentRecord[]>;
  /** Reads the usage of the parent's runs since the day of `sinceMs`, at most `usageTtlMs` back. */
  usage(parent: ParentAddress, sinceMs: number): Promise<UsageTotals>;
  /** Reads the parent's registered profile; undefined if none was registered. */
  profile(parent: ParentAddress): Promise<StoredProfile | undefined>;
  /** Reads the uncut text of a reply whose summary was cut. */
  fullText(parent: ParentAddress, replyId: string): Promise<string | undefined>;
}

/** State of an agent's run; `created_at`: epoch ms. */
export type RunState = Pick<AgentRecord, "status" | "run" | "created_at">;

/** The job of a queued agent that has waited for `waited_ms` since the agent's first deadline. */
export interface WaitingJob {
  wake: number;
  agent_id: string;
  waited_ms: number;
}

/** A parent's registered profile as Redis holds it; `registered_at`: epoch ms of Redis' clock. */
export interface StoredProfile {
  profile_version: number;
  content: string;
  registered_at: number;
}

/** The spawn of a request key. `digest`: digest of its arguments. */
export interface RememberedSpawn {
  uid: string;
  digest: string;
  agent_id: string;
  created_at: number;
}

type AgentVerb = keyof typeof AGENT_VERBS;
/** The verbs of an agent; the table describes each of them and its answers. */
export type AgentVerbs = {
  [N in AgentVerb]: (
    address: AgentAddress,
    ...input: Record<never, never> extends VerbInput<N> ? [input?: VerbInput<N>] : [input: VerbInput<N>]
  ) => Promise<VerbAnswer<N>>;
};

/** The store over one connection. */
export interface AgentStore extends AgentVerbs, AgentReads {
  readonly timing: Timing;
  readonly keys: Keys;
}

/** Returns a store on `redis`; `keys` and `timing` are the installation's. */
export function createAgentStore(redis: RedisClient, keys: Keys, timing: Timing = TIMING): AgentStore {
  const scripts = loadScripts(redis, keys, timing);
  return { timing, keys, ...verbsOf(scripts), ...readsOf(redis, keys) };
}

/** Returns every verb of an agent, by the names of the table. */
function verbsOf(scripts: Scripts): AgentVerbs {
  const verbs: Partial<Record<string, unknown>> = {};
  for (const name of Object.keys(AGENT_VERBS) as AgentVerb[])
    verbs[name] = (address: AgentAddress, input: VerbInput<typeof name>) =>
      scripts.run(name, address, input ?? {});
  return verbs as AgentVerbs;
}

async function readClaimed(
  redis: RedisClient,
  { log: key }: AgentKeys,
  answer: ClaimedAnswer,
): Promise<StoredAgent> {
  const log = answer.log ?? (await readEntries(redis, key)) ?? new Map<string, string>();
  const record = withText(AgentRecord.parse(Object.fromEntries(answer.record)), (entry) => log.get(entry));
  return { record, log, inbox: answer.messages.map(unreadMessage) };
}

/**
 * Reads the entries that a log or transcript has at one moment, whose names never get another content. Redis serves others
 * between the pages. Undefined if the hash is renamed or deleted meanwhile.
 */
async function readEntries(redis: RedisClient, key: string): Promise<Map<string, string> | undefined> {
  const names = await redis.hkeys(key);
  const entries = new Map<string, string>();
  for (let from = 0; from < names.length; from += PAGE_ENTRIES) {
    const page = await valuesOf(redis, key, names.slice(from, from + PAGE_ENTRIES));
    if (!page) return undefined;
    for (const [name, json] of page) entries.set(name, json);
  }
  return entries;
}

/** Parses the message that is stored as `text` at this place of the inbox. */
function unreadMessage(text: string, place: number): InboxMessage {
  return InboxMessage.parse(storedJson(text, ["inbox", place]));
}

/** Returns `record` with the text of its run, if the log has that. */
function withText(record: AgentRecord, entryOf: (key: string) => string | undefined): AgentRecord {
  const { progress, said } = record;
  const entry = said === undefined ? undefined : entryOf(entryKey.message(said));
  if (!progress || entry === undefined) return record;
  return { ...record, progress: { ...progress, summary: answerText(entry) || NO_SUMMARY } };
}

/**
 * Yields the keys that may have an agent's conversation, in the order in which they are to be read: if the agent ends between
 * two reads, its log has the other name. After the ack a transcript may stay for the worker that held the run: readers have none.
 */
async function* conversationKeys(redis: RedisClient, { log, transcript, record }: AgentKeys) {
  yield log;
  if ((await redis.hexists(record, "acked_by")) === 0) yield transcript;
}

async function partOf(
  redis: RedisClient,
  ofAgent: AgentKeys,
  pick: Parameters<AgentReads["conversationPart"]>[1],
  within: Parameters<AgentReads["conversationPart"]>[2],
): Promise<ReadonlyMap<string, string> | undefined> {
  for await (const key of conversationKeys(redis, ofAgent)) {
    const found = await redis.hkeys(key);
    if (found.length === 0) continue;
    const chosen = pick(found);
    const bytes = await Promise.all(chosen.map((name) => redis.hstrlen(key, name)));
    const entries = await valuesOf(redis, key, within(chosen, bytes));
    if (entries) return entries;
  }
  return undefined;
}

/** Reads these entries, which a log or transcript had a moment ago; undefined if it was renamed or deleted since. */
async function valuesOf(
  redis: RedisClient,
  key: string,
  names: readonly string[],
): Promise<Map<string, string> | undefined> {
  const entries = new Map<string, string>();
  const values = names.length > 0 ? await redis.hmget(key, ...names) : [];
  for (const [i, json] of values.entries()) {
    if (json === null) return undefined;
    entries.set(names[i] ?? "", json);
  }
  return entries;
}

/** Longer than any start mark that a worker writes. */
const LONGEST_MARK_BYTES = 1_024;
const startMarks = (names: readonly string[]) =>
  names.filter((name) => name.endsWith(entryKey.startedOf("")));
const unlessTooLong = (names: readonly string[], bytes: readonly number[]) =>
  names.filter((_, i) => (bytes[i] ?? 0) <= LONGEST_MARK_BYTES);

async function hasBegun(redis: RedisClient, ofAgent: AgentKeys, tools: ReadonlySet<string>) {
  const marks = await partOf(redis, ofAgent, startMarks, unlessTooLong);
  return [...(marks?.values() ?? [])].some((json) =>
    tools.has(ToolStartedEntry.safeParse(jsonIn(json)).data?.name ?? ""),
  );
}

function readsOf(redis: RedisClient, keys: Keys): AgentReads {
  const recordOf = (address: AgentAddress) =>
    readRecord(redis, keys.agent(address), (fields) => parseRecord(address, fields));
  const readInbox = async (address: AgentAddress) =>
    (await redis.lrange(keys.agent(address).inbox, 0, -1)).map(unreadMessage);
  return {
    claimed: (address, answer) => readClaimed(redis, keys.agent(address), answer),
    runState: (address) => readRunState(redis, keys.agent(address).record),
    isHeld: (address) => readIsHeld(redis, keys.agent(address).record),
    record: recordOf,
    allowlist: async (address) =>
      AgentSpecJson.safeParse(await redis.hget(keys.agent(address).record, "spec")).data?.tools,
    waitingJob: (address, nowMs) => readWaitingJob(redis, keys.agent(address).record, nowMs),
    inbox: readInbox,
    async conversation(address) {
      for await (const key of conversationKeys(redis, keys.agent(address))) {
        const entries = await readEntries(redis, key);
        if (entries && entries.size > 0) return entries;
      }
      return new Map();
    },
    conversationPart: (address, pick, within) => partOf(redis, keys.agent(address), pick, within),
    hasBegun: (address, tools) => hasBegun(redis, keys.agent(address), tools),
    async load(address) {
      const [record, log, inbox] = await Promise.all([
        recordOf(address),
        readEntries(redis, keys.agent(address).log),
        readInbox(address),
      ]);
      return record && { record, log: log ?? new Map<string, string>(), inbox };
    },
    attached: (address, names) => readAttached(redis, keys.agent(address).attachments, names),
    uidOf: async (parent, agentId) =>
      AgentId.safeParse(agentId).success
        ? ((await redis.hget(keys.parent(parent).registry, agentId)) ?? undefined)
        : undefined,
    occupancy: (parent, requestKey) => readOccupancy(redis, keys.parent(parent), requestKey),
    spawnedWith: (parent, requestKey) => readSpawn(redis, keys.parent(parent).request(requestKey)),
    liveUids: (parent) => redis.hkeys(keys.parent(parent).live),
    liveIds: (parent) => readLiveIds(redis, keys, parent),
    liveRecords: (parent) => readLive(redis, keys, parent),
    usage: async (parent, sinceMs) => sumUsage(await redis.hgetall(keys.parent(parent).usage), sinceMs),
    profile: (parent) => readProfile(redis, keys.parent(parent).profile),
    fullText: async (parent, replyId) => (await redis.get(keys.parent(parent).text(replyId))) ?? undefined,
  };
}

/** Fields that need the script: a lease may be over, a parent may be gone, no worker may have the tools. */
const NEED_THE_SCRIPT = ["lease_until", "on_parent_gone", "tools_since"] as const;

async function readWaitingJob(redis: RedisClient, record: string, nowMs: number) {
  const [status, agent_id, storedWake, ...others] = await redis.hmget(
    record,
    ...["status", "agent_id", "wake", "v", "deadline", "unanswered_since", "max_age_ms"],
    ...NEED_THE_SCRIPT,
  );
  if (status !== "queued" || !agent_id) return undefined;
  const more = others.splice(-NEED_THE_SCRIPT.length);
  if (more.some((field) => field !== null)) return undefined;
  // A record without a wake is broken. Lua may accept a number that this check rejects: the script decides then.
  const numbers = [storedWake ?? "", ...others.map((field) => field ?? "0")];
  if (!numbers.every((field) => /^\d{1,15}$/.test(field))) return undefined;
  const [wake = 0, v = 0, deadline = 0, since = 0, maxAgeMs = 0] = numbers.map(Number);
  const isTooOld = since > 0 && since + maxAgeMs <= nowMs;
  if (v > PAYLOAD_VERSION || deadline > nowMs || isTooOld) return undefined;
  return { wake, agent_id, waited_ms: nowMs - deadline };
}

async function readOccupancy(redis: RedisClient, ofParent: ParentKeys, requestKey: string) {
  const request = ofParent.request(requestKey);
  const [lives, known] = await Promise.all([redis.hvals(ofParent.live), redis.exists(request)]);
  return { live: lives.length === 0 ? 0 : await redis.exists(lives), isKnown: known > 0 };
}

/** Parses the value that spawn.lua writes. */
async function readSpawn(redis: RedisClient, key: string): Promise<RememberedSpawn | undefined> {
  const [, uid, digest, agent_id, at] = /^(\S+) (\S*) (\S+) (\S+)$/.exec((await redis.get(key)) ?? "") ?? [];
  if (uid === undefined || digest === undefined || agent_id === undefined) return undefined;
  return { uid, digest, agent_id, created_at: int.decode(at) };
}

async function readAttached(redis: RedisClient, attachments: string, names: readonly string[]) {
  const texts = await redis.hmget(attachments, ...names);
  return texts.map((text, i) =>
    text === null ? undefined : Attached.parse(storedJson(text, ["attachments", names[i] ?? ""])),
  );
}

async function readRunState(redis: RedisClient, record: string): Promise<RunState | undefined> {
  const [status, run, created_at] = await redis.hmget(record, "status", "run", "created_at");
  if (!status) return undefined;
  return {
    status: AgentStatus.parse(status),
    run: int.decode(run ?? undefined),
    created_at: int.decode(created_at ?? undefined),
  };
}

async function readIsHeld(redis: RedisClient, record: string): Promise<boolean> {
  const held = redis.hmget(record, "status", "lease_until");
  const [[status, until], nowMs] = await Promise.all([held, redisNowMs(redis)]);
  return status === "running" && Number(until) > nowMs;
}

async function readProfile(redis: RedisClient, key: string): Promise<StoredProfile | undefined> {
  const { profile_version, content, registered_at } = await redis.hgetall(key);
  if (content === undefined) return undefined;
  return {
    profile_version: int.decode(profile_version),
    content,
    registered_at: int.decode(registered_at),
  };
}

async function readLiveIds(redis: RedisClient, keys: Keys, parent: ParentAddress): Promise<string[]> {
  const uids = await redis.hkeys(keys.parent(parent).live);
  const idOf = (uid: string) => redis.hget(keys.agent(agentOf(parent, uid)).record, "agent_id");
  const ids = await Promise.all(uids.map((uid) => unlessMistyped(idOf(uid), null)));
  return ids.flatMap((id) => id ?? []);
}

async function readLive(redis: RedisClient, keys: Keys, parent: ParentAddress): Promise<AgentRecord[]> {
  const uids = await redis.hkeys(keys.parent(parent).live);
  const parse = (fields: Record<string, string>) => AgentRecord.safeParse(fields).data;
  const records = await Promise.all(
    uids.map((uid) => unlessMistyped(readRecord(redis, keys.agent(agentOf(parent, uid)), parse), undefined)),
  );
  return records.flatMap((record) => record ?? []);
}

/** Reads a record and the text of its run, from the log or the record. */
async function readRecord(
  redis: RedisClient,
  { record: key, log }: AgentKeys,
  parse: (fields: Record<string, string>) => AgentRecord | undefined,
): Promise<AgentRecord | undefined> {
  const record = parse(await redis.hgetall(key));
  if (record?.said === undefined) return record;
  const entry = await redis.hget(log, entryKey.message(record.said));
  // If the agent ended between the two reads, its record has the text by now.
  return entry === null ? parse(await redis.hgetall(key)) : withText(record, () => entry);
}

function parseRecord(address: AgentAddress, fields: Record<string, string>): AgentRecord | undefined {
  if (Object.keys(fields).length === 0) return undefined;
  return AgentRecord.parse(fields.acked_by === undefined ? fields : readKept(address, fields));
}
