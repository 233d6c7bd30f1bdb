/** A hint to the sweepers and the verb that needs it, in one flight. Loads nothing: who spawns must stay light to import. */
import { messageOf } from "../errors.ts";
import type { Logger } from "../logger.ts";

/**
 * Who sends a hint. `isAhead`: a hint that is sent first arrives first, which no cluster promises; false: the verb waits for it.
 * `inBackground`: told of work that no caller waits for and that never rejects.
 */
export interface HintSender {
  logger: Logger;
  uid: string;
  isAhead?: boolean;
  inBackground?: (work: Promise<void>) => void;
}

/**
 * Sends a hint and then its verb in one flight: over one connection the hint is there first. What the verb says counts: a hint
 * that Redis refused is sent once more behind it, and logged if that fails, too. Meanwhile the check stands that the agent's
 * old state has set.
 */
export async function withDeadlineHint<T>(
  hint: () => Promise<void>,
  verb: () => Promise<T>,
  { logger, uid, isAhead = true, inBackground }: HintSender,
): Promise<T> {
  const hinting = hint();
  if (!isAhead) await hinting.catch(() => {});
  const [hinted, done] = await Promise.allSettled([hinting, verb()]);
  if (done.status === "rejected") throw done.reason;
  if (hinted.status === "rejected") {
    const again = hint().catch((error) =>
      logger.warn({ uid, problem: messageOf(error) }, "No deadline was set"),
    );
    inBackground?.(again);
  }
  return done.value;
}
