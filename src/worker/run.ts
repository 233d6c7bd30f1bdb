/** One run: claim it, then perform what `next` decides and ask again, until it is over or no longer ours. */
import { messageOf } from "../shared/errors.ts";
import { newRequestKey } from "../shared/protocol/ids.ts";
import type { AgentAddress } from "../shared/protocol/keys.ts";
import { callModel } from "./call-model.ts";
import { deliver } from "./deliver.ts";
import { holdLease } from "./lease.ts";
import { next, type Step } from "./loop/next.ts";
import { openSession } from "./open-session.ts";
import { releaseRun } from "./release-run.ts";
import type { RunContext, RunEnd } from "./run-context.ts";
import { runTools } from "./run-tools.ts";
import type { Session } from "./session.ts";
import { settleRun } from "./settle-run.ts";

/** A run that broke off (a full disk, a bug) is tried again, on any worker, after this long, doubling up to a bound. */
const BROKEN_OFF_DELAY_MS = 5_000;
const LONGEST_BROKEN_OFF_DELAY_MS = 5 * 60_000;

/** Runs the agent, if it is ours to run. Rejects only when Redis refuses even the hand-back. */
export async function run(context: RunContext, address: AgentAddress): Promise<RunEnd> {
  const { store, deadlines, clock, workerId, leases } = context;
  // A claim makes the deadline the end of its lease: the hint must not be later, should this process die.
  await deadlines.touch(address, store.timing.leaseMs);
  const claimedAtMs = clock.monotonicMs();
  const claim = await store.claim(address, newRequestKey(), workerId);
  if (claim.status !== "claimed") return { status: "passed", because: claim.status };

  const epoch = Number(claim.epoch);
  const state = await store.load(address);
  if (state?.record.epoch !== epoch) return { status: "lost" };

  let session: Session | undefined;
  const lease = holdLease({
    store,
    clock,
    address,
    epoch,
    claimedAtMs,
    earlierMs: state.record.running_ms,
    onNews: (news) => session?.heed(news),
  });
  leases.set(address.uid, lease);
  try {
    session = await openSession(context, address, state, lease);
    const end = await pursue(context, session);
    return end.status === "lost" ? await giveBack(context, session) : end;
  } catch (error) {
    context.logger.error({ uid: address.uid, problem: messageOf(error) }, "Run broke off and is handed back");
    // Other tools of the turn may still be at work: they end before anybody else may begin.
    lease.stop();
    const retries = (session?.retries ?? state.record.retries) + 1;
    const delayMs = Math.min(BROKEN_OFF_DELAY_MS * 2 ** (retries - 1), LONGEST_BROKEN_OFF_DELAY_MS);
    const held = { address, record: state.record, lease, retries };
    return await releaseRun(context, held, { reason: "broken_off", delayMs });
  } finally {
    lease.stop();
    // After a lost lease this process may hold the agent again already.
    if (leases.get(address.uid) === lease) leases.delete(address.uid);
  }
}

/**
 * A lease that ran out, because Redis was away or this process stood still, leaves the run to nobody, and renewals that
 * waited on the way may still lengthen it. All work on it here has ended: unless somebody has taken over, it is queued.
 */
async function giveBack(context: RunContext, session: Session): Promise<RunEnd> {
  session.lease.stop();
  const how = { reason: "lease_lost", delayMs: 0 };
  return releaseRun(context, session, how).catch(() => ({ status: "lost" }));
}

async function pursue(context: RunContext, session: Session): Promise<RunEnd> {
  for (;;) {
    if (!session.lease.isLive()) return { status: "lost" };
    if (context.draining.aborted) return releaseRun(context, session, { reason: "drain", delayMs: 0 });
    const end = await perform(context, session, next(await session.log(), session.rules));
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
    case "settle":
      return settleRun(context, session, step);
  }
}
