/**
 * The intake stream: what programs without this library have handed in and no worker has handed over yet.
 *
 * Owns: a group of consumers, one a process. Its neighbour `service/intake` says what becomes of an entry.
 *
 * 1. An entry leaves the stream when it is done, never before: what a dead process had read is claimed by another.
 *
 * `read` blocks its connection, so that one is its caller's own; everything else goes over the other.
 */
import { messageOf } from "../errors.ts";
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

/** One entry as it stands in the stream: its id, and its fields and values in turn. */
export interface IntakeEntry {
  id: string;
  flat: readonly string[];
}

/** See the module's header. */
export interface IntakeStream {
  /** New entries; waits a second for the first. Rejects when the connection is closed. */
  read(): Promise<IntakeEntry[]>;
  /** Entries that another reader, or an earlier `read`, has left behind; also forgets readers that are gone. */
  claim(): Promise<IntakeEntry[]>;
  /** Takes an entry out. Idempotent. */
  done(id: string): Promise<void>;
  /** Keeps an entry that names no parent to tell, with the reason, for the operator. */
  setAside(id: string, reason: string): Promise<void>;
  /** Leaves the group, unless entries are in hand: those are claimed by others. */
  leave(): Promise<void>;
}

/** The stream on `redis`, read over `blocking` as `consumer`, a name that no other process has. */
export function createIntakeStream(
  redis: RedisClient,
  blocking: RedisClient,
  { intake, intakeRefused }: Keys,
  consumer: string,
): IntakeStream {
  const inGroup = <T>(work: () => Promise<T>) => withGroup(redis, intake, work);
  return {
    async read() {
      const answer = await inGroup(() =>
        blocking.xreadgroup(
          "GROUP",
          GROUP,
          consumer,
          "COUNT",
          BATCH,
          "BLOCK",
          BLOCK_MS,
          "STREAMS",
          intake,
          ">",
        ),
      );
      // One stream was asked: its name, then its entries.
      const stream: unknown = Array.isArray(answer) ? answer[0] : undefined;
      return entriesIn(Array.isArray(stream) ? stream[1] : undefined);
    },
    async claim() {
      const answer = await inGroup(() =>
        redis.xautoclaim(intake, GROUP, consumer, CLAIM_AFTER_MS, "0", "COUNT", BATCH),
      );
      await forgetGone(redis, intake, consumer);
      return entriesIn(answer[1]);
    },
    async done(id) {
      await redis.multi().xack(intake, GROUP, id).xdel(intake, id).exec();
    },
    async setAside(id, reason) {
      await redis.xadd(intakeRefused, "MAXLEN", "~", REFUSED_KEPT, "*", "entry", id, "reason", reason);
    },
    async leave() {
      const mine = (await consumersOf(redis, intake)).find(({ name }) => name === consumer);
      if (mine?.pending === 0) await redis.xgroup("DELCONSUMER", intake, GROUP, consumer);
    },
  };
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

function entriesIn(found: unknown): IntakeEntry[] {
  if (!Array.isArray(found)) return [];
  // An entry that was taken out while it was being claimed comes without fields.
  return found.flatMap((each: unknown) =>
    Array.isArray(each) && Array.isArray(each[1]) ? [{ id: String(each[0]), flat: each[1].map(String) }] : [],
  );
}
