/**
 * Reads the state of an installation besides its agents: keys, unacked replies, workers, wakes. It only reads, and without
 * transactions, so that it works while Redis has no memory left. A key of the wrong type is reported and skipped, never
 * thrown.
 */

import { inBatches } from "../batch.ts";
import { isUnreadable, isWrongType, messageOf, unlessMistyped } from "../errors.ts";
import type { AgentRecord } from "../protocol/agent.ts";
import {
  type AgentAddress,
  addressOfMember,
  deadlineMember,
  installationKeysGlob,
  type Keys,
  ownerOfKey,
  type ParentAddress,
  parentOfMember,
} from "../protocol/keys.ts";
import type { UsageTotals } from "../protocol/usage.ts";
import { WORKER_TTL_MS, WorkerAnnouncement } from "../protocol/worker.ts";
import type { AgentStore } from "./agent-store.ts";
import { numberIn, pairs } from "./codec.ts";
import { type RedisClient, serversOf } from "./connection/connection.ts";
import { createKeyTypes } from "./key-types.ts";
import { createProviderLimiter, type LimiterState } from "./provider-limiter.ts";
import { redisNowMs } from "./redis-time.ts";
import type { ReadableWakeQueue } from "./wake-queue.ts";
import { nextTryMsOf } from "./webhooks.ts";

/** A reply channel with unacked entries. */
export interface UnackedReplies {
  parent: ParentAddress;
  /** Number of these entries. */
  unacked: number;
  /** Age of the oldest one. */
  oldestMs: number;
}

/** A live worker, and the time at which Redis got its announcement (Redis' time, epoch ms). */
export interface WorkerSnapshot {
  worker: WorkerAnnouncement;
  announcedAtMs: number;
}

/** The wake queue at one moment. */
export interface WakesSnapshot {
  waiting: number;
  active: number;
  delayed: number;
  /** True if the queue itself is paused. */
  isPaused: boolean;
  /** Id of the job that will be taken next. */
  next: string | undefined;
}

const BATCH = 200;
/** Entries of the index that one command reads: about a millisecond of Redis. */
const PAGE_PARENTS = 1_000;

/** Reads the channels of `parents` that have entries; skips keys of another type. */
export async function readUnackedReplies(
  redis: RedisClient,
  keys: Keys,
  parents: readonly ParentAddress[],
): Promise<UnackedReplies[]> {
  const nowMs = await redisNowMs(redis);
  const found = await inBatches(parents, BATCH, async (parent): Promise<UnackedReplies[]> => {
    const { replies } = keys.parent(parent);
    const [oldest] = await unlessMistyped(redis.xrange(replies, "-", "+", "COUNT", 1), []);
    if (!oldest) return [];
    return [{ parent, unacked: await redis.xlen(replies), oldestMs: nowMs - Number.parseInt(oldest[0], 10) }];
  });
  return found.flat();
}

/** Entries that a parent's webhook has not got. */
export interface UnpushedReplies extends UnackedReplies {
  /** Problem of the last round; undefined: no API process has tried, and none will soon. */
  problem: string | undefined;
}

/** An entry that is older than this and that no API process has in hand waits for one. A walk finds lost rings sooner. */
const UNTRIED_MS = 60_000;

/** Selects the `unacked` replies whose parent's webhook fails, or that no API process pushes. Skips keys of another type. */
export async function readUnpushed(
  redis: RedisClient,
  keys: Keys,
  unacked: readonly UnackedReplies[],
): Promise<UnpushedReplies[]> {
  const nowMs = await redisNowMs(redis);
  const found = await inBatches(unacked, BATCH, async (each): Promise<UnpushedReplies[]> => {
    const { parent, oldestMs } = each;
    const asked = redis.hmget(keys.parent(parent).webhook, "url", "failures", "disabled", "last_problem");
    const [url, failures, disabled, problem] = await unlessMistyped(asked, []);
    if (url == null) return [];
    if (failures != null || disabled != null) return [{ problem: problem ?? "it failed", ...each }];
    const nextTryMs = await unlessMistyped(nextTryMsOf(redis, keys, parent), undefined);
    const isInHand = nextTryMs !== undefined && nextTryMs > nowMs - UNTRIED_MS;
    return oldestMs < UNTRIED_MS || isInHand ? [] : [{ problem: undefined, ...each }];
  });
  return found.flat();
}

/** Reads the age of the oldest entry that waits for its push, of the `most` parents that are due first, ms; 0: none waits. */
export async function readOldestUnpushedMs(redis: RedisClient, keys: Keys, most: number): Promise<number> {
  const members = await redis.zrange(keys.webhooksDue, 0, most - 1);
  const parents = members.flatMap((member) => parentOfMember(member) ?? []);
  const old = await readUnackedReplies(redis, keys, parents);
  return old.reduce((oldest, { oldestMs }) => Math.max(oldest, oldestMs), 0);
}

/** Refused intake entries that no parent was told about: their number, and the ids of the newest. */
export interface RefusedEntries {
  count: number;
  newest: string[];
}

/** Reads the entries that the intake has set aside; returns the ids of the newest `most`. */
export async function readRefusedEntries(
  redis: RedisClient,
  { intakeRefused }: Keys,
  most: number,
): Promise<RefusedEntries> {
  const count = await unlessMistyped(redis.xlen(intakeRefused), 0);
  const newest = await unlessMistyped(redis.xrevrange(intakeRefused, "+", "-", "COUNT", most), []);
  return { count, newest: newest.map(([, fields]) => new Map(pairs(fields)).get("entry") ?? "") };
}

/**
 * Reads the age of the oldest unacked reply of the `most` parents that were active longest ago, ms; 0 if there is none.
 * Skips parents whose replies have expired.
 */
export async function readOldestReplyMs(
  redis: RedisClient,
  keys: Keys,
  { most, replyTtlMs }: { most: number; replyTtlMs: number },
): Promise<number> {
  const nowMs = await redisNowMs(redis);
  const since = nowMs - replyTtlMs;
  const members = await redis.zrange(keys.parents, since, "+inf", "BYSCORE", "LIMIT", 0, most);
  const parents = members.flatMap((member) => parentOfMember(member) ?? []);
  const old = await readUnackedReplies(redis, keys, parents);
  return old.reduce((oldest, { oldestMs }) => Math.max(oldest, oldestMs), 0);
}

/** Reads how long ago the earliest deadline that no sweeper has checked was due, ms; 0 if none is late. */
export async function readSweeperLagMs(redis: RedisClient, keys: Keys): Promise<number> {
  const [nowMs, earliest] = await Promise.all([
    redisNowMs(redis),
    redis.zrange(keys.deadlines, 0, 0, "WITHSCORES"),
  ]);
  const [, dueMs] = earliest;
  return dueMs === undefined ? 0 : Math.max(0, nowMs - numberIn(dueMs));
}

/**
 * Reads the parents that were active since `sinceMs` (epoch ms), with their last activity, the newest first; the last active `most` of
 * them, by default all. A hint. Reads in pages, so that Redis serves others in between. A parent that becomes active meanwhile moves to
 * the front and may be missing.
 */
export async function readParents(
  redis: RedisClient,
  keys: Keys,
  sinceMs = 0,
  most = Number.POSITIVE_INFINITY,
): Promise<{ parent: ParentAddress; activeAtMs: number }[]> {
  const found = new Map<string, { parent: ParentAddress; activeAtMs: number }>();
  for (let from = 0, wanted = 0; found.size < most; from += wanted) {
    wanted = Math.min(PAGE_PARENTS, most - found.size);
    const page = await redis.zrange(keys.parents, from, from + wanted - 1, "REV", "WITHSCORES");
    // A score that is not a time, written by another program, sorts before all times.
    const active = [...pairs(page)].filter(([, score]) => !(Number(score) < sinceMs));
    for (const [member, score] of active) {
      const parent = parentOfMember(member);
      if (parent && !found.has(member)) found.set(member, { parent, activeAtMs: Number(score) });
    }
    if (active.length < wanted) break;
  }
  return [...found.values()];
}

/** Counts the entries of the index of parents with an activity since `sinceMs` (epoch ms). A hint. */
export function countParents(redis: RedisClient, keys: Keys, sinceMs: number): Promise<number> {
  return redis.zcount(keys.parents, sinceMs, "+inf");
}

/** Reads entries `from` to `to` (both included, from 0) of a tenant's index, the last active parent first. */
export async function readTenantParents(
  redis: RedisClient,
  keys: Keys,
  tenant: string,
  [from, to]: readonly [from: number, to: number],
): Promise<{ parent: ParentAddress; activeAtMs: number }[]> {
  const found = await redis.zrange(keys.tenantParents(tenant), from, to, "REV", "WITHSCORES");
  return [...pairs(found)].map(([parentId, score]) => {
    return { parent: { tenant, parentId }, activeAtMs: Number(score) };
  });
}

/** State of a parent: its live agents, the usage of its runs today (UTC), the number of its unacked entries. */
export interface ParentState {
  agents: AgentRecord[];
  today: UsageTotals;
  unacked: number;
}

/** A parent with data that cannot be read, and the reason. */
export interface UnreadableParent {
  problem: string;
}

/** Reads the state of a parent. Data that cannot be read is no exception: one parent must not hide the others. */
export async function readParentState(
  {
    redis,
    keys,
    store,
  }: { redis: RedisClient; keys: Keys; store: Pick<AgentStore, "liveRecords" | "usage"> },
  parent: ParentAddress,
  nowMs: number,
): Promise<ParentState | UnreadableParent> {
  try {
    const [agents, today, unacked] = await Promise.all([
      store.liveRecords(parent),
      store.usage(parent, nowMs),
      redis.xlen(keys.parent(parent).replies),
    ]);
    return { agents, today, unacked };
  } catch (error) {
    if (isWrongType(error) || isUnreadable(error)) return { problem: messageOf(error) };
    throw error;
  }
}

/** Reads the provider limits; none if a key of them has the wrong type. */
export function readLimiters(redis: RedisClient, keys: Keys): Promise<LimiterState[]> {
  return unlessMistyped(createProviderLimiter(redis, keys).list(), []);
}

/** Reads the live workers, by id; skips unreadable announcements of a newer version. */
export async function readWorkers(redis: RedisClient, keys: Keys): Promise<WorkerSnapshot[]> {
  const ids = (await unlessMistyped(redis.smembers(keys.workers), [])).sort();
  const readWorker = async (id: string): Promise<WorkerSnapshot[]> => {
    const key = keys.worker(id);
    // Not in a transaction, because a Redis without free memory refuses every command in one.
    const [beforeMs, text, leftMs] = await Promise.all([
      redis.pttl(key),
      unlessMistyped(redis.get(key), null),
      redis.pttl(key),
    ]);
    // The worker announced itself in between, so it is unknown which announcement was read.
    if (leftMs > beforeMs) return readWorker(id);
    const nowMs = await redisNowMs(redis);
    const worker = announcementIn(text);
    return worker ? [{ worker, announcedAtMs: nowMs - (WORKER_TTL_MS - leftMs) }] : [];
  };
  return (await inBatches(ids, BATCH, readWorker)).flat();
}

/** Reads the wake queue. It does not read the next job's data, which may be no JSON, only its id. */
export async function readWakes(queue: ReadableWakeQueue): Promise<WakesSnapshot> {
  const none: Record<string, number> = {};
  const [counts, isPaused, [next]] = await Promise.all([
    unlessMistyped(queue.getJobCounts("wait", "prioritized", "active", "delayed"), none),
    unlessMistyped(queue.isPaused(), false),
    unlessMistyped(queue.getRanges(["wait", "prioritized"], 0, 0, true), []),
  ]);
  const { wait = 0, prioritized = 0, active = 0, delayed = 0 } = counts;
  return { waiting: wait + prioritized, active, delayed, isPaused, next };
}

function announcementIn(text: string | null): WorkerAnnouncement | undefined {
  try {
    return WorkerAnnouncement.safeParse(JSON.parse(text ?? "null")).data;
  } catch {
    return undefined;
  }
}

// A walk through the keys of an installation, in pages. It may miss a key that is made or deleted meanwhile.

/** Limits of a survey. */
export interface SurveyBounds {
  /** Most keys of the whole Redis to walk through. */
  keys: number;
  /** Most agents to return; those that are live or left keys behind come first. */
  agents: number;
}

/** A key whose type is not the one that every version of this package writes. */
export interface MistypedKey {
  key: string;
  /** As Redis names types: `hash`, `list`, `set`, `stream`, `string`, `zset`. */
  type: string;
  expected: string;
}

/** Result of a survey. */
export interface KeySurvey {
  agents: AgentAddress[];
  /** Parents that have a reply channel. */
  channels: ParentAddress[];
  /** Members of the deadline set that name no agent, and when the sweeper checks them, epoch ms. */
  strayMembers: { member: string; nextCheckMs: number }[];
  mistyped: MistypedKey[];
  /** The limits that were reached; empty: the survey is complete. */
  reached: (keyof SurveyBounds)[];
}

const PAGE_KEYS = 1_000;

/** Surveys the installation under `prefix`. */
export async function surveyKeys(
  redis: RedisClient,
  keys: Keys,
  prefix: string,
  bounds: SurveyBounds,
): Promise<KeySurvey> {
  /** Agents by member: first those that are live or left keys behind, then those with only a record. */
  const first = new Map<string, AgentAddress>();
  const recorded = new Map<string, AgentAddress>();
  const parents = new Map<string, ParentAddress>();
  const channels = new Map<string, ParentAddress>();
  const mistyped: MistypedKey[] = [];
  const file = (map: Map<string, AgentAddress>, address: AgentAddress) =>
    map.set(deadlineMember(address), address);
  const strayMembers = await readDeadlines(redis, keys, (address) => file(first, address));

  const typeOfKey = createKeyTypes(prefix, keys);
  const isWhole = await walkKeys(redis, installationKeysGlob(prefix), bounds.keys, (key, type) => {
    const expected = typeOfKey(key) ?? type;
    const isMistyped = type !== expected && type !== "none";
    if (isMistyped) mistyped.push({ key, type, expected });
    const owned = ownerOfKey(prefix, key);
    if (!owned) return;
    const { tenant, parentId, uid, part } = owned;
    if (uid !== undefined) file(part === "record" ? recorded : first, { tenant, parentId, uid });
    else if (part === "live" && !isMistyped) parents.set(`${tenant}/${parentId}`, owned);
    else if (part === "replies" && !isMistyped) channels.set(`${tenant}/${parentId}`, owned);
  });

  await inBatches([...parents.values()], BATCH, async ({ tenant, parentId }) => {
    const { live } = keys.parent({ tenant, parentId });
    for (const uid of await redis.hkeys(live)) file(first, { tenant, parentId, uid });
  });
  const agents = [...new Map([...first, ...recorded]).values()];
  const reached: (keyof SurveyBounds)[] = [];
  if (!isWhole) reached.push("keys");
  if (agents.length > bounds.agents) reached.push("agents");
  const owners = [...channels.values()].map(({ tenant, parentId }) => ({ tenant, parentId }));
  return { agents: agents.slice(0, bounds.agents), channels: owners, strayMembers, mistyped, reached };
}

/** Walks through the keys that match, on every server; false if it stopped after `mostKeys` keys of any kind. */
async function walkKeys(
  redis: RedisClient,
  glob: string,
  mostKeys: number,
  onKey: (key: string, type: string) => void,
): Promise<boolean> {
  let walked = 0;
  for (const server of serversOf(redis)) {
    let cursor = "0";
    do {
      if (walked >= mostKeys) return false;
      const [next, page] = await server.scan(cursor, "MATCH", glob, "COUNT", PAGE_KEYS);
      cursor = next;
      walked += PAGE_KEYS;
      const pipeline = server.pipeline();
      for (const key of page) pipeline.type(key);
      const types = (await pipeline.exec()) ?? [];
      for (const [n, key] of page.entries()) onKey(key, String(types[n]?.[1] ?? "none"));
    } while (cursor !== "0");
  }
  return true;
}

async function readDeadlines(
  redis: RedisClient,
  keys: Keys,
  onAgent: (address: AgentAddress) => void,
): Promise<KeySurvey["strayMembers"]> {
  const strayMembers: KeySurvey["strayMembers"] = [];
  let cursor = "0";
  do {
    const walked = redis.zscan(keys.deadlines, cursor, "COUNT", PAGE_KEYS);
    const [next, page] = await unlessMistyped(walked, ["0", []]);
    cursor = next;
    for (const [member, score] of pairs(page)) {
      const address = addressOfMember(member);
      if (address) onAgent(address);
      else if (!parentOfMember(member)) strayMembers.push({ member, nextCheckMs: numberIn(score) });
    }
  } while (cursor !== "0");
  return strayMembers;
}
