/** Cursors of readers: event numbers and ids of the reply channel, which begin with the time of Redis at their writing. */
import { SubagentError } from "../shared/errors.ts";
import { DAY_MS } from "../shared/protocol/usage.ts";
import { redisNowMs } from "../shared/redis/redis-time.ts";
import type { ClientResources } from "./client-resources.ts";

/** How far ahead of Redis' time a cursor may be: after a failover, or a clock that was set back, true ones are ahead of it. */
const MOST_AHEAD_MS = DAY_MS;

/**
 * Throws `invalid_input` for a cursor that lies in the future: its reader would wait until that time, without a word. Throws
 * as any call while Redis does not answer.
 */
export async function refuseFutureCursor({ read, redis }: ClientResources, cursor: string): Promise<void> {
  const cursorMs = Number.parseInt(cursor, 10);
  if (cursorMs === 0) return;
  const nowMs = await read(() => redisNowMs(redis));
  if (cursorMs <= nowMs + MOST_AHEAD_MS) return;
  throw new SubagentError(
    "invalid_input",
    `${cursor} lies in the future, and a reader would wait until then: read on after a number that an earlier answer gave.`,
    { cursor },
  );
}
