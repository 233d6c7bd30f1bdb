/**
 * One run, from a wake to the end of this process' part in it: claim → open → { next → perform → commit } → end. A step adds
 * entries to the session; they are committed before the next tool, call or end. A run resumes after a crash by asking `next`
 * again.
 */
import { newCleared, newVerdict } from "../loop/log.ts";
import type { Step } from "../loop/next.ts";
import type { RunSlot } from "../run-slots.ts";
import { askParent } from "./ask-parent.ts";
import { callModel } from "./call-model.ts";
import { type ClaimedRun, claimRun, type TakenWake } from "./claim.ts";
import type { RunContext, RunOutcome } from "./context.ts";
import { deliverMessages } from "./deliver-messages.ts";
import { afterError, afterLeaseLoss, releaseRun } from "./failure.ts";
import { openSession } from "./open-session.ts";
import { runTools } from "./run-tools.ts";
import type { Session } from "./session.ts";
import { settleCrashed, settleRun } from "./settle-run.ts";

/** Runs the agent if this worker may run it. Rejects only if Redis refuses even the hand-back. */
export async function run(context: RunContext, taken: TakenWake): Promise<RunOutcome> {
  const slot = context.slots.admit();
  if (!slot) return { status: "returned", reason: "isolation", delayMs: 0 };
  try {
    const claimed = await claimRun(context, taken, slot);
    return claimed.status === "claimed" ? await runClaimed(context, claimed, slot) : claimed;
  } finally {
    slot.leave();
  }
}

/** Runs a claimed run to the end of this process' part. */
async function runClaimed(context: RunContext, claimed: ClaimedRun, slot: RunSlot): Promise<RunOutcome> {
  const { leases } = context;
  const lease = leases.hold(claimed);
  context.onHeld?.(claimed);
  let session: Session | undefined;
  let end: RunOutcome = { status: "lost" };
  try {
    if (claimed.claimAnswer?.status !== "claimed") return await settleCrashed(context, claimed, lease);
    session = await openSession(context, claimed.claimAnswer, lease, slot);
    claimed.claimAnswer = undefined;
    end = (await runSteps(context, session)) ?? (await afterLeaseLoss(context, claimed, session));
    return end;
  } catch (error) {
    // Other tools of the turn may still run: they end before another worker may begin.
    lease.workStop.stop();
    end = await afterError(context, { claimed, lease, session }, error);
    return end;
  } finally {
    session?.equipment.observer.end(end);
    leases.drop(lease);
  }
}

/** Performs steps until the run is over; undefined if this worker no longer holds it. */
async function runSteps(context: RunContext, session: Session): Promise<RunOutcome | undefined> {
  const { lease } = session;
  for (;;) {
    if (!lease.isLive()) return undefined;
    if (session.isInboxStale) await session.refreshInbox();
    const step = session.next();
    const mustLeave = context.draining.aborted || session.equipment.slot.mustHandBack;
    // A run that has ended is settled here, even while the process stops: handed back, its reply would wait for another worker.
    const isLeaving = context.abandoned.aborted || (mustLeave && step.do !== "settle");
    const end = isLeaving
      ? await releaseBetweenSteps(context, session)
      : await perform(context, session, step);
    if (end === "lease_over") return undefined;
    if (end) return end;
  }
}

/** Hands the run back between two steps: the process stops, or a suspect needs the process for itself. */
async function releaseBetweenSteps(
  context: RunContext,
  session: Session,
): Promise<RunOutcome | "lease_over"> {
  if (session.isCommitDue && (await session.commit()) === "lease_over") return "lease_over";
  const reason = context.draining.aborted ? "drain" : "isolation";
  return releaseRun(context, session, { reason, delayMs: 0 });
}

/** Performs one step; undefined = ask `next` again. */
async function perform(
  context: RunContext,
  session: Session,
  step: Step,
): Promise<RunOutcome | "lease_over" | undefined> {
  switch (step.do) {
    case "deliver":
      return deliverMessages(context, session, step);
    case "call_model":
      return callModel(context, session, step);
    case "run_tools":
      return runTools(context, session, step);
    case "clear":
      return clearOldResults(session, step);
    case "check_output":
      return checkOutput(context, session, step);
    case "ask":
      return askParent(context, session, step);
    case "settle":
      return settleRun(context, session, step);
  }
}

/**
 * Leaves old results out of requests from now on. That is stored before the next call, because otherwise the next worker
 * would repeat the request that was too long.
 */
function clearOldResults(session: Session, { message, cleared }: Extract<Step, { do: "clear" }>): undefined {
  session.add([newCleared(message, cleared)]);
  return undefined;
}

/**
 * Checks if the last answer is the output that was asked for; the verdict enters the log with the next commit. If this machine
 * has no process or no processor for the check, commits the answer, which was paid for, and rejects: the run breaks off.
 */
async function checkOutput(
  context: RunContext,
  session: Session,
  { message, text }: Extract<Step, { do: "check_output" }>,
): Promise<"lease_over" | undefined> {
  const { outputSchema = {} } = session.rules;
  try {
    session.add([newVerdict(message, await context.checkOutput(outputSchema, text))], false);
  } catch (error) {
    if ((await session.commit()) === "lease_over") return "lease_over";
    throw error;
  }
  return undefined;
}
