/** When API keys were last used, for `keys list`: an operator revokes the first of two keys once nothing uses it. */
import type { Clock } from "../../shared/clock.ts";

/** Time between two notes of this process about one key, ms. */
const NOTED_EVERY_MS = 60_000;
/** Number of keys after which all are noted once more. */
const MOST_KEYS = 10_000;

/**
 * Returns a function to call with the id of each key that is used. It calls `note` at most once a minute for one key, and does
 * not wait for it; a note that fails is left out.
 */
export function createKeyUses(
  clock: Pick<Clock, "monotonicMs">,
  note: (keyId: string) => Promise<void>,
): (keyId: string) => void {
  const notedAtMs = new Map<string, number>();
  return (keyId) => {
    const nowMs = clock.monotonicMs();
    if (nowMs - (notedAtMs.get(keyId) ?? Number.NEGATIVE_INFINITY) < NOTED_EVERY_MS) return;
    if (notedAtMs.size >= MOST_KEYS) notedAtMs.clear();
    notedAtMs.set(keyId, nowMs);
    note(keyId).catch(() => {});
  };
}
