/**
 * Repair of the intake queue: what other programs wrote as jobs, and BullMQ cannot take, is taken from the active jobs. BullMQ does
 * not say which job an error comes from, so each active one is looked at.
 */
import { isWrongType } from "../errors.ts";
import type { RedisClient } from "./connection/connection.ts";

/** Returns whether an error may come from what another program wrote as a job: BullMQ cannot parse it, or its scripts cannot use it. */
export function mayBeOfAJob(error: Error): boolean {
  if (error instanceof SyntaxError || error instanceof TypeError) return true;
  return isWrongType(error) || error.message.includes("hash value is not an integer");
}

/** Fields of a job, besides its data, that BullMQ parses when it takes the job; and those that its scripts count up. */
const PARSED_FIELDS = ["opts", "progress", "parent"] as const;
const COUNTED_FIELDS = ["ats", "stc"] as const;
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
    const areHashes = await Promise.all(some.map((id) => removeUnreadable(redis, keyOf(id))));
    // Removal of what is no job: the check of BullMQ for stalled jobs would end there, and leave those of dead processes.
    for (const [i, isHash] of areHashes.entries())
      if (!isHash) await redis.lrem(keyOf("active"), 0, some[i] ?? "");
  }
}

/** Returns false for a key of another type, which has no fields. */
async function removeUnreadable(redis: RedisClient, key: string): Promise<boolean> {
  const read = redis.hmget(key, ...PARSED_FIELDS, ...COUNTED_FIELDS);
  const values = await read.catch((error: unknown) => {
    if (isWrongType(error)) return undefined;
    throw error;
  });
  const unreadable = PARSED_FIELDS.filter((name, i) => !isReadable(name, values?.[i]));
  const uncounted = COUNTED_FIELDS.filter(
    (_, i) => !/^-?\d{1,15}$/.test(values?.[PARSED_FIELDS.length + i] ?? "0"),
  );
  if (unreadable.length + uncounted.length > 0) await redis.hdel(key, ...unreadable, ...uncounted);
  return values !== undefined;
}

function isReadable(name: (typeof PARSED_FIELDS)[number], text: string | null | undefined): boolean {
  if (!text) return true;
  try {
    const value: unknown = JSON.parse(text);
    // BullMQ reads the entries of the options.
    return name !== "opts" || value !== null;
  } catch {
    return false;
  }
}
