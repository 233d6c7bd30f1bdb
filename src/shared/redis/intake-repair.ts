/**
 * Repair of the intake queue: what other programs wrote as jobs, and BullMQ cannot take, is taken from the active jobs. BullMQ does
 * not say which job an error comes from, so each active one is looked at. A job that is about to end is looked at first: BullMQ's
 * script ends in the middle where it cannot use a field, and leaves the job in no list.
 */
import { z } from "zod";
import { isWrongType } from "../errors.ts";
import type { RedisClient } from "./connection/connection.ts";

/** Returns whether an error may come from what another program wrote as a job: BullMQ cannot parse it, or its scripts cannot use it. */
export function mayBeOfAJob(error: Error): boolean {
  if (error instanceof SyntaxError || error instanceof TypeError) return true;
  return isWrongType(error) || error.message.includes("hash value is not an integer");
}

/**
 * Fields of a job besides its data: those that BullMQ parses when it takes the job, those that its scripts count up, and those
 * that name the job's parent.
 */
const PARSED_FIELDS = ["opts", "progress"] as const;
const COUNTED_FIELDS = ["ats", "stc", "atm"] as const;
const PARENT_FIELDS = ["parent", "parentKey"] as const;
const FIELDS = [...PARSED_FIELDS, ...COUNTED_FIELDS, ...PARENT_FIELDS];
/** Counter that Redis can count up: it reads no zeros in front, and no number that is too large. */
const COUNT = /^(0|-?[1-9]\d{0,14})$/;
/** Half of a character, as JSON writes it. */
const HALF_CHARACTER = /\\ud[89a-f]/;
/** Parent of a job, with values that BullMQ's scripts can read. */
const Parent = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]));
/** Jobs whose fields are read in one flight. */
const READ_AT_A_TIME = 500;

/**
 * Removes the fields of active jobs that BullMQ cannot use, and from the queue what is no job: BullMQ would take it, fail and leave
 * it to the next process, without an end. `keyOf`: the Redis key of a name of the queue.
 */
export async function repairActive(redis: RedisClient, keyOf: (name: string) => string): Promise<void> {
  const ids = await redis.lrange(keyOf("active"), 0, -1);
  for (let from = 0; from < ids.length; from += READ_AT_A_TIME) {
    const some = ids.slice(from, from + READ_AT_A_TIME);
    const areHashes = await Promise.all(some.map((id) => removeUnusable(redis, keyOf(id))));
    // Removal of what is no job: the check of BullMQ for stalled jobs would end there, and leave those of dead processes.
    for (const [i, isHash] of areHashes.entries())
      if (!isHash) await redis.lrem(keyOf("active"), 0, some[i] ?? "");
  }
}

/** Removes the fields of a job that BullMQ cannot use. Returns false for a key of another type, which has no fields. */
export async function removeUnusable(redis: RedisClient, key: string): Promise<boolean> {
  const values = await redis.hmget(key, ...FIELDS).catch((error: unknown) => {
    if (isWrongType(error)) return undefined;
    throw error;
  });
  if (!values) return false;
  const found = new Map(FIELDS.map((name, i) => [name, values[i] ?? undefined]));
  const unusable: string[] = [
    ...PARSED_FIELDS.filter((name) => !isReadable(name, found.get(name))),
    ...COUNTED_FIELDS.filter((name) => !COUNT.test(found.get(name) ?? "0")),
    ...(isParent(found.get("parent"), found.get("parentKey")) ? [] : PARENT_FIELDS),
  ];
  if (unusable.length > 0) await redis.hdel(key, ...unusable);
  return true;
}

function isReadable(name: (typeof PARSED_FIELDS)[number], text: string | undefined): boolean {
  if (!text) return true;
  const value = parsed(text);
  // BullMQ reads the entries of the options.
  return value !== undefined && (name !== "opts" || value !== null);
}

/** Returns whether both fields name one parent, as BullMQ writes them. Earlier versions wrote the key alone. */
function isParent(text: string | undefined, key: string | undefined): boolean {
  if (text === undefined) return key === undefined || key === "" || key.includes(":");
  const { data } = Parent.safeParse(parsed(text));
  // Lua reads no half characters.
  return (
    data !== undefined && key === `${data.queueKey}:${data.id}` && !HALF_CHARACTER.test(JSON.stringify(data))
  );
}

/** Returns the value of a text in JSON; undefined if it is none. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
