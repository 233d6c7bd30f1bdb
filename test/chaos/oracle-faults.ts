/** Checks that the faults struck active runs: a chaos run without that proves nothing. Pure. */
import type { Evidence, Lookup, Violation } from "./evidence.ts";
import { isOfRedis } from "./fault-schedule.ts";
import type { ChaosOptions } from "./options.ts";

/** Share of the kills (0–1) that must hit an active run. */
const AIMED = 0.8;

/** The planned faults, and the number of replies that the proxies swallowed. */
export type Struck = Pick<ChaosOptions, "runs" | "faults"> & { planned: number; swallowed: number };

/** Returns the violations in the faults themselves. */
export function judgeFaults(
  { runs, faults: asked, planned, swallowed }: Struck,
  { faults }: Pick<Evidence, "faults">,
  { claims }: Pick<Lookup, "claims">,
): Violation[] {
  const broken = "the faults really struck";
  const violations: Violation[] = [];
  const complain = (detail: string) => violations.push({ broken, detail });
  if (planned === 0 && !asked.has("swallow")) complain("none was planned");
  const last = faults.filter(({ isRepeated }) => !isRepeated);
  const over = last.filter(({ at, endedAt }) => endedAt >= at).length;
  if (over < planned) complain(`${over} of ${planned} planned`);
  // A worker's fault hit a run only if the run continues under another claim. For faults of Redis this is not required: Redis
  // may be back before any lease ends, and its clock may jump by less than the rest of a lease.
  const isHit = ({ kind, hit }: Evidence["faults"][number]) =>
    hit.some(({ uid, epoch }) => isOfRedis(kind) || claims.get(uid)?.some((claim) => claim.epoch > epoch));
  const kills = last.filter(({ kind }) => kind === "kill");
  const hits = kills.filter(isHit).length;
  if (hits < AIMED * kills.length) complain(`${hits} of ${kills.length} kills hit an active run`);
  for (const kind of new Set(last.map((fault) => fault.kind)))
    if (!last.some((fault) => fault.kind === kind && isHit(fault))) complain(`no ${kind} hit an active run`);
  if (asked.has("swallow") && swallowed < runs) complain(`only ${swallowed} replies were swallowed`);
  return violations;
}
