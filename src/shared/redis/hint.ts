/** A hint to the sweepers and the verb that needs it, in one flight. Loads nothing: who spawns must stay light to import. */
import { messageOf } from "../errors.ts";
import type { Logger } from "../logger.ts";

/** Who sends a hint. `inBackground`: told of work that no caller waits for and that never rejects. */
export interface HintSender {
  logger: Logger;
  uid: string;
  inBackground?: (work: Promise<void>) => void;
}

/**
 * Sends a hint and then its verb in one flight: over one connection the hint is there first. What the verb says counts: a hint
 * that Redis refused is sent once more behind it, and logged if that fails, too. Meanwhile the check stands that the agent's
 * old state has set.
 */
export async function withHint<T>(
  hint: () => Promise<void>,
  verb: () => Promise<T>,
  { logger, uid, inBackground }: HintSender,
): Promise<T> {
  const [hinted, done] = await Promise.allSettled([hint(), verb()]);
  if (done.status === "rejected") throw done.reason;
  if (hinted.status === "rejected") {
    const again = hint().catch((error) =>
      logger.warn({ uid, problem: messageOf(error) }, "No deadline was set"),
    );
    inBackground?.(again);
  }
  return done.value;
}
