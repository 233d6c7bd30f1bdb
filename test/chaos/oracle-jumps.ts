/** Decides which violations a jump of Redis' clock excuses. Pure. */
import type { Evidence, Lookup } from "./evidence.ts";
import { CLAIMED_AGAIN_MS } from "./oracle-recovery.ts";

/** Time (ms) within which a worker that has just lost a run may still start work that it had decided on before. */
const UNDER_WAY_MS = 1_000;

/**
 * Returns whether a forward jump of the clock took the run from a live worker so shortly before `at` that it could not know. A
 * lease measured by two clocks cannot prevent that. Writes of such a worker are refused all the same.
 */
export function isCaughtByJump(
  { faults }: Pick<Evidence, "faults">,
  { claims }: Pick<Lookup, "claims">,
  { uid, at }: { uid: string; at: number },
): boolean {
  const known = claims.get(uid) ?? [];
  const now = known.findLastIndex((claim) => claim.at < at + 1);
  const [lost, taken] = [known[now - 1], known[now]];
  if (!lost || !taken || at - taken.at > UNDER_WAY_MS) return false;
  return faults.some(
    ({ jumpMs = 0, at: from, endedAt: to }) =>
      jumpMs > 0 && to >= lost.at && from <= taken.at && taken.at - to <= CLAIMED_AGAIN_MS,
  );
}

/** Returns whether Redis' clock jumped while the run was held under `epoch`, or while it waited for its next holder. */
export function isHeldOverJump(
  { faults }: Pick<Evidence, "faults">,
  { claims }: Pick<Lookup, "claims">,
  { uid, epoch }: { uid: string; epoch: number },
): boolean {
  const known = claims.get(uid) ?? [];
  const from = known.find((claim) => claim.epoch === epoch)?.at ?? 0;
  const until = known.find((claim) => claim.epoch > epoch)?.at ?? Number.POSITIVE_INFINITY;
  return faults.some(({ jumpMs, at, endedAt }) => jumpMs !== undefined && endedAt >= from && at <= until);
}
