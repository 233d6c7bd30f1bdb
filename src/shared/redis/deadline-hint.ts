/** Sends a hint to the sweepers and its verb in one flight. Imports nothing heavy: callers that spawn must load fast. */
import { messageOf } from "../errors.ts";
import type { Logger } from "../logger.ts";

/**
 * Sender of a hint. `isOrdered`: hint and verb use one connection, so Redis gets the hint first though the verb is sent at
 * once; false (a cluster): the verb is sent after the hint's answer. `inBackground`: gets work that no caller waits for and
 * that never rejects.
 */
export interface HintSender {
  logger: Logger;
  uid: string;
  isOrdered?: boolean;
  inBackground?: (work: Promise<void>) => void;
}

/**
 * Sends a hint and then its verb in one flight: over one connection the hint arrives first. Only the verb's result counts: a
 * hint that Redis refused is sent once more after it, and logged if that fails, too. Until then the check set by the agent's
 * old state remains.
 */
export async function withDeadlineHint<T>(
  hint: () => Promise<void>,
  verb: () => Promise<T>,
  { logger, uid, isOrdered = true, inBackground }: HintSender,
): Promise<T> {
  const hinting = hint();
  if (!isOrdered) await hinting.catch(() => {});
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
