/** What a jump of Redis' clock excuses. Pure. */
import type { Evidence, Lookup } from "./evidence.ts";
import { CLAIMED_AGAIN_MS } from "./oracle-recovery.ts";

/** A start of which a worker was sure when it lost the run is over within this time, ms. */
const UNDER_WAY_MS = 1_000;

/**
 * Whether a clock that was set forth took the run from a live worker so shortly before `at` that this one could not know. A
 * lease that is measured by two clocks cannot hold then; what such a worker writes is refused all the same.
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

/** Whether Redis' clock jumped while the run was held under `epoch`, or waited for its next holder. */
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
