/**
 * The end of a thread: its deletion by a client. Nothing else is stored for a thread, and its agents' records stay as those of any
 * parent: without this mark its reports could be read until they expire.
 */
import { type ParentContext, withRead } from "../../producer/parent-context.ts";
import { SubagentError } from "../../shared/errors.ts";
import { quoted } from "../../shared/protocol/text.ts";
import { DAY_MS } from "../../shared/protocol/usage.ts";

/** Longer than the record of an agent that is destroyed at the deletion is kept. */
const DELETED_KEPT_MS = 8 * DAY_MS;

/** Marks the thread as deleted. Idempotent. Rejects with `redis_unavailable`. */
export async function markDeleted(context: ParentContext, threadId: string): Promise<void> {
  await withRead(context, ({ client: { redis, keys }, parent }) =>
    redis.set(keys.parent(parent).deleted(threadId), 1, "PX", DELETED_KEPT_MS),
  );
}

/** Rejects with `not_found` if the thread was deleted. */
export async function requireUndeleted(context: ParentContext, threadId: string): Promise<void> {
  const isDeleted = await withRead(context, ({ client: { redis, keys }, parent }) =>
    redis.exists(keys.parent(parent).deleted(threadId)),
  );
  if (isDeleted) throw unknownThread(threadId);
}

/** Returns the error for a thread that does not exist. */
export function unknownThread(threadId: string): SubagentError {
  const shown = quoted(threadId);
  return new SubagentError("not_found", `There is no thread ${shown}: make one with POST /threads.`);
}
