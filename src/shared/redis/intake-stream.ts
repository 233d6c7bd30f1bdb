/**
 * The intake stream: what programs without this library have handed in and no worker has handed over yet.
 *
 * Owns: a group of consumers, one a process. Its neighbour `service/intake` says what becomes of an entry.
 *
 * 1. An entry leaves the stream when it is done, never before: what a dead process had read is claimed by another.
 * 2. An entry that was delivered {@link INTAKE_DELIVERIES} times without an outcome is delivered no more, and is not read again:
 *    reading it may be what ends its readers. It stays in the stream for the operator, and is named in `intakeRefused`.
 *
 * `read` blocks its connection, so that one is its caller's own; everything else goes over the other.
 */
import { messageOf } from "../errors.ts";
import type { Logger } from "../logger.ts";
import type { Keys } from "../protocol/keys.ts";
import type { RedisClient } from "./connection/connection.ts";

const GROUP = "workers";
/** Entries read at once. */
const BATCH = 32;
/** `read` waits so long for an entry; one that was lost on the way is claimed. */
const BLOCK_MS = 1_000;
/** An entry that its reader has left for so long is claimed by another. */
const CLAIM_AFTER_MS = 5_000;
/** A reader without entries that has not asked for so long is forgotten. */
const FORGET_AFTER_MS = 3_600_000;
const REFUSED_KEPT = 1_000;

/** Most deliveries of an entry without an outcome. */
export const INTAKE_DELIVERIES = 5;
const NO_OUTCOME = `delivered ${INTAKE_DELIVERIES} times without an outcome; it stays in the stream, read it with XRANGE`;

/** One entry as it stands in the stream: its id, its fields and values in turn, and how often it was delivered, with this time. */
export interface IntakeEntry {
  id: string;
  flat: readonly string[];
  deliveries: number;
}

/** See the module's header. */
export interface IntakeStream {
  /** New entries; waits a second for the first. Rejects when the connection is closed. */
  read(): Promise<IntakeEntry[]>;
  /** Entries that another reader, or an earlier `read`, has left behind; also forgets readers that are gone. */
  claim(): Promise<IntakeEntry[]>;
  /** Takes an entry out. Idempotent. */
  done(id: string): Promise<void>;
  /** Leaves an entry for a later `claim`, as if it had not been delivered: what is in its way will pass. */
  keep(id: string): Promise<void>;
  /** Notes an entry that names no parent to tell, with the reason, for the operator. */
  setAside(id: string, reason: string): Promise<void>;
  /** Leaves the group, unless entries are in hand: those are claimed by others. */
  leave(): Promise<void>;
}

/** The stream on `redis`, read over `blocking` as `consumer`, a name that no other process has. */
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
      // One stream was asked: its name, then its entries.
      const stream: unknown = Array.isArray(answer) ? answer[0] : undefined;
      return entriesIn(Array.isArray(stream) ? stream[1] : undefined, new Map());
    },
    async claim() {
      const found = await inGroup(() => pendingIn(redis, intake, claimedTo));
      // Those that wait for something come again after all others.
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

function readNew(blocking: RedisClient, intake: string, consumer: string): Promise<unknown> {
  const as = ["GROUP", GROUP, consumer, "COUNT", BATCH, "BLOCK", BLOCK_MS] as const;
  return blocking.xreadgroup(...as, "STREAMS", intake, ">");
}

/** Makes the group where it is missing: at the first use, and after a Redis that forgot it. */
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
    const words = Array.isArray(flat) ? flat.map(String) : [];
    const wordAfter = (name: string) => words[words.indexOf(name) + 1] ?? "";
    return {
      name: wordAfter("name"),
      pending: Number(wordAfter("pending")),
      idleMs: Number(wordAfter("idle")),
    };
  });
}

interface Pending {
  id: string;
  deliveries: number;
}

/** Entries behind `after` that a reader has had for too long, and how often each was delivered. */
async function pendingIn(redis: RedisClient, intake: string, after?: string): Promise<Pending[]> {
  const from = after === undefined ? "-" : `(${after}`;
  const found = await redis.xpending(intake, GROUP, "IDLE", CLAIM_AFTER_MS, from, "+", BATCH);
  return found.map((each: unknown) => {
    const [id, , , deliveries]: unknown[] = Array.isArray(each) ? each : [];
    return { id: String(id), deliveries: Number(deliveries) };
  });
}

/** `before`: how often an entry was delivered before this time, where it was. */
function entriesIn(found: unknown, before: ReadonlyMap<string, number>): IntakeEntry[] {
  if (!Array.isArray(found)) return [];
  // An entry that was taken out while it was being claimed comes without fields.
  return found.flatMap((each: unknown) => {
    if (!Array.isArray(each) || !Array.isArray(each[1])) return [];
    const id = String(each[0]);
    return [{ id, flat: each[1].map(String), deliveries: (before.get(id) ?? 0) + 1 }];
  });
}

function idsIn(found: unknown): string[] {
  return Array.isArray(found) ? found.map(String) : [];
}
