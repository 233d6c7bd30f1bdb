/** One run: claim it, then perform what `next` decides and ask again, until it is over or no longer ours. */
import { messageOf } from "../shared/errors.ts";
import type { AgentAddress } from "../shared/protocol/keys.ts";
import { askParent } from "./ask-parent.ts";
import { callModel } from "./call-model.ts";
import { type ClaimedRun, claimRun, type TakenWake } from "./claim-run.ts";
import { deliver } from "./deliver.ts";
import { holdLease } from "./lease.ts";
import { next, type Step } from "./loop/next.ts";
import { openSession } from "./open-session.ts";
import type { Place } from "./quarantine.ts";
import { releaseRun } from "./release-run.ts";
import type { RunContext, RunEnd } from "./run-context.ts";
import { runTools } from "./run-tools.ts";
import type { Session } from "./session.ts";
import { settleLost, settleRun } from "./settle-run.ts";

/** A run that broke off (a full disk, a bug) is tried again, on any worker, after this long, doubling up to a bound. */
const BROKEN_OFF_DELAY_MS = 5_000;
const LONGEST_BROKEN_OFF_DELAY_MS = 5 * 60_000;

/** Runs the agent, if it is ours to run. Rejects only when Redis refuses even the hand-back. */
export async function run(context: RunContext, taken: TakenWake): Promise<RunEnd> {
  const place = context.quarantine.admit();
  if (!place) return { status: "returned", because: "quarantine", delayMs: 0 };
  try {
    const claimed = await claimRun(context, taken, place);
    return claimed.status === "claimed" ? await hold(context, taken.address, claimed, place) : claimed;
  } finally {
    place.leave();
  }
}

/** From the claim to the end of our part. */
async function hold(
  context: RunContext,
  address: AgentAddress,
  claimed: ClaimedRun,
  place: Place,
): Promise<RunEnd> {
  const { store, clock, leases } = context;
  let session: Session | undefined;
  const lease = holdLease({ store, clock, address, ...claimed, onNews: (news) => session?.heed(news) });
  leases.set(address.uid, lease);
  // A hint that came while the agent was being loaded found no lease to check.
  void lease.check();
  try {
    if (claimed.isLost) return await settleLost(context, address, lease);
    const state = await store.load(address);
    if (state?.record.epoch !== lease.epoch) return { status: "lost" };
    session = await openSession(context, address, state, lease, place.prove);
    const end = await pursue(context, session, place);
    return end.status === "lost" ? await giveBack(context, session) : end;
  } catch (error) {
    context.logger.error({ uid: address.uid, problem: messageOf(error) }, "Run broke off and is handed back");
    // Other tools of the turn may still be at work: they end before anybody else may begin.
    lease.stop();
    const retries = (session?.retries ?? claimed.retries) + 1;
    const delayMs = Math.min(BROKEN_OFF_DELAY_MS * 2 ** (retries - 1), LONGEST_BROKEN_OFF_DELAY_MS);
    const held = { address, record: session?.record, lease, retries };
    return await releaseRun(context, held, { reason: "broken_off", delayMs });
  } finally {
    lease.stop();
    // After a lost lease this process may hold the agent again already.
    if (leases.get(address.uid) === lease) leases.delete(address.uid);
  }
}

/**
 * A lease that ran out, because Redis was away or this process stood still, leaves the run to nobody, and renewals that
 * waited on the way may still lengthen it. A run of which Redis has forgotten a part is held by a process that may write
 * nothing. All work on it here has ended: unless somebody has taken over, it is queued.
 */
async function giveBack(context: RunContext, session: Session): Promise<RunEnd> {
  session.lease.stop();
  const how = { reason: "lease_lost", delayMs: 0 };
  return releaseRun(context, session, how).catch(() => ({ status: "lost" }));
}

async function pursue(context: RunContext, session: Session, place: Place): Promise<RunEnd> {
  for (;;) {
    if (!session.lease.isLive()) return { status: "lost" };
    if (context.draining.aborted) return releaseRun(context, session, { reason: "drain", delayMs: 0 });
    const step = next(await session.log(), session.rules);
    if (place.notice.aborted && step.do !== "settle")
      return releaseRun(context, session, { reason: "quarantine", delayMs: 0 });
    const end = await perform(context, session, step);
    if (end) return end;
  }
}

/** Performs one step; undefined = ask again. */
function perform(context: RunContext, session: Session, step: Step): Promise<RunEnd | undefined> {
  switch (step.do) {
    case "deliver":
      return deliver(session, step);
    case "call_model":
      return callModel(context, session, step);
    case "run_tools":
      return runTools(context, session, step);
    case "ask":
      return askParent(context, session, step);
    case "settle":
      return settleRun(context, session, step);
  }
}
