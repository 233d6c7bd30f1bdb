/**
 * The intake stream: entries of programs without this library that no worker has processed yet.
 *
 * Owns: a group of consumers, one per process. Its neighbour `service/intake` decides how an entry ends.
 *
 * 1. An entry leaves the stream when it is done, never before: entries that a dead process had read are claimed by another.
 * 2. An entry that was delivered {@link INTAKE_DELIVERIES} times without an outcome is delivered no more, and is not read
 *    again: reading it may be what ends its readers. It stays in the stream for the operator, and is named in
 *    `intakeRefused`.
 *
 * `read` blocks its connection, so the caller gives it one of its own; everything else uses the other.
 */
import { messageOf } from "../errors.ts";
import type { Logger } from "../logger.ts";
import type { Keys } from "../protocol/keys.ts";
import type { RedisClient } from "./connection/connection.ts";

const GROUP = "workers";
/** Entries read at once. */
const BATCH = 32;
/** `read` waits this long for an entry. An entry whose answer was lost is claimed. */
const BLOCK_MS = 1_000;
/** Another process claims an entry that its reader has had for this long. */
const CLAIM_AFTER_MS = 5_000;
/** A reader without entries is deleted if it has asked for nothing for this long. */
const FORGET_AFTER_MS = 3_600_000;
const REFUSED_KEPT = 1_000;

/** Most deliveries of an entry without an outcome. */
export const INTAKE_DELIVERIES = 5;
const NO_OUTCOME = `delivered ${INTAKE_DELIVERIES} times without an outcome; it stays in the stream, read it with XRANGE`;

/** One entry of the stream: its id, alternating fields and values, and the number of its deliveries, this one included. */
export interface IntakeEntry {
  id: string;
  flat: readonly string[];
  deliveries: number;
}

/** See the module's header. */
export interface IntakeStream {
  /** Reads new entries; waits a second for the first. Rejects when the connection is closed. */
  read(): Promise<IntakeEntry[]>;
  /** Claims entries that another reader, or an earlier `read`, has left behind; also deletes readers that are gone. */
  claim(): Promise<IntakeEntry[]>;
  /** Removes an entry. Idempotent. */
  done(id: string): Promise<void>;
  /** Leaves an entry for a later `claim`, as if it had not been delivered: its obstacle will pass. */
  keep(id: string): Promise<void>;
  /** Notes an entry without a parent that could be told, with the reason, for the operator. */
  setAside(id: string, reason: string): Promise<void>;
  /** Leaves the group, unless this process holds entries: other processes claim those. */
  leave(): Promise<void>;
}

/** Returns the stream on `redis`, read over `blocking` as `consumer`, a name that no other process has. */
export function createIntakeStream(
  redis: RedisClient,
  blocking: RedisClient,
  { intake, intakeRefused }: Keys,
  { consumer, logger }: { consumer: string; logger: Logger },
): IntakeStream {
  const inGroup = <T>(work: () => Promise<T>) => withGroup(redis, intake, work);
  let claimedTo: string | undefined;
  const claimed = async (found: readonly Pending[], ...how: string[]): Promise<unknown> => {
    const ids = found.map(({ id }) => id);
    return ids.length === 0 ? [] : redis.xclaim(intake, GROUP, consumer, CLAIM_AFTER_MS, ...ids, ...how);
  };
  const setAside = async (id: string, reason: string) => {
    await redis.xadd(intakeRefused, "MAXLEN", "~", REFUSED_KEPT, "*", "entry", id, "reason", reason);
  };
  return {
    async read() {
      const answer = await inGroup(() => readNew(blocking, intake, consumer));
      // The answer has one stream: its name, then its entries.
      const stream: unknown = Array.isArray(answer) ? answer[0] : undefined;
      return entriesIn(Array.isArray(stream) ? stream[1] : undefined, new Map());
    },
    async claim() {
      const found = await inGroup(() => pendingIn(redis, intake, claimedTo));
      // Entries that wait for something are claimed again after all others.
      claimedTo = found.length < BATCH ? undefined : found.at(-1)?.id;
      const spent = found.filter(({ deliveries }) => deliveries >= INTAKE_DELIVERIES);
      for (const id of await claimed(spent, "JUSTID").then(idsIn)) {
        await setAside(id, NO_OUTCOME);
        await redis.xack(intake, GROUP, id);
        logger.warn({ entry: id, problem: NO_OUTCOME }, "An intake entry is delivered no more");
      }
      await forgetGone(redis, intake, consumer);
      const before = new Map(found.map(({ id, deliveries }) => [id, deliveries]));
      return entriesIn(await claimed(found.filter((each) => !spent.includes(each))), before);
    },
    async done(id) {
      await redis.multi().xack(intake, GROUP, id).xdel(intake, id).exec();
    },
    async keep(id) {
      await redis.xclaim(intake, GROUP, consumer, 0, id, "RETRYCOUNT", 0, "JUSTID");
    },
    setAside,
    async leave() {
      const mine = (await consumersOf(redis, intake)).find(({ name }) => name === consumer);
      if (mine?.pending === 0) await redis.xgroup("DELCONSUMER", intake, GROUP, consumer);
    },
  };
}

/**
 * Counts the entries that a reader would get: new ones, as one where Redis does not know their number, and those under way; not
 * those set aside for good. Reads one entry at most, since each may have megabytes.
 */
export async function countWaiting(redis: RedisClient, { intake }: Pick<Keys, "intake">): Promise<number> {
  // Redis refuses to tell the groups of a stream that does not exist.
  const found = (await redis.exists(intake)) === 0 ? [] : await redis.xinfo("GROUPS", intake);
  const groups = Array.isArray(found) ? found.map(wordsOf) : [];
  const group = groups.find((wordAfter) => wordAfter("name") === GROUP);
  if (!group) return redis.xlen(intake);
  const isNew = (await redis.xrange(intake, `(${group("last-delivered-id")}`, "+", "COUNT", 1)).length > 0;
  const newer = isNew ? Number(group("lag")) || 1 : 0;
  return newer + Number(group("pending"));
}

function readNew(blocking: RedisClient, intake: string, consumer: string): Promise<unknown> {
  const as = ["GROUP", GROUP, consumer, "COUNT", BATCH, "BLOCK", BLOCK_MS] as const;
  return blocking.xreadgroup(...as, "STREAMS", intake, ">");
}

/** Runs `work`; creates the group if it is missing: at the first use, and after Redis has lost it. */
async function withGroup<T>(redis: RedisClient, intake: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!messageOf(error).startsWith("NOGROUP")) throw error;
    await redis.xgroup("CREATE", intake, GROUP, "0", "MKSTREAM").catch(unlessThere);
    return work();
  }
}

function unlessThere(error: unknown): void {
  if (!messageOf(error).startsWith("BUSYGROUP")) throw error;
}

async function forgetGone(redis: RedisClient, intake: string, consumer: string): Promise<void> {
  for (const { name, pending, idleMs } of await consumersOf(redis, intake))
    if (name !== consumer && pending === 0 && idleMs > FORGET_AFTER_MS)
      await redis.xgroup("DELCONSUMER", intake, GROUP, name);
}

async function consumersOf(redis: RedisClient, intake: string) {
  const found = await redis.xinfo("CONSUMERS", intake, GROUP);
  if (!Array.isArray(found)) return [];
  return found.map((flat: unknown) => {
    const wordAfter = wordsOf(flat);
    return {
      name: wordAfter("name"),
      pending: Number(wordAfter("pending")),
      idleMs: Number(wordAfter("idle")),
    };
  });
}

/** Returns a reader of what Redis tells of a thing, names and values in turn. */
function wordsOf(flat: unknown): (name: string) => string {
  const words = Array.isArray(flat) ? flat.map(String) : [];
  return (name) => words[words.indexOf(name) + 1] ?? "";
}

interface Pending {
  id: string;
  deliveries: number;
}

/** Reads entries after `after` that a reader has had for too long, and how often each was delivered. */
async function pendingIn(redis: RedisClient, intake: string, after?: string): Promise<Pending[]> {
  const from = after === undefined ? "-" : `(${after}`;
  const found = await redis.xpending(intake, GROUP, "IDLE", CLAIM_AFTER_MS, from, "+", BATCH);
  return found.map((each: unknown) => {
    const [id, , , deliveries]: unknown[] = Array.isArray(each) ? each : [];
    return { id: String(id), deliveries: Number(deliveries) };
  });
}

/** Parses entries. `before`: the number of earlier deliveries of an entry, if any. */
function entriesIn(found: unknown, before: ReadonlyMap<string, number>): IntakeEntry[] {
  if (!Array.isArray(found)) return [];
  // An entry that was removed while it was being claimed has no fields.
  return found.flatMap((each: unknown) => {
    if (!Array.isArray(each) || !Array.isArray(each[1])) return [];
    const id = String(each[0]);
    return [{ id, flat: each[1].map(String), deliveries: (before.get(id) ?? 0) + 1 }];
  });
}

function idsIn(found: unknown): string[] {
  return Array.isArray(found) ? found.map(String) : [];
}
