/** Ends a run: sends its reply, and the agent is idle, queued again or ended. */
import { within } from "../../shared/clock.ts";
import { AgentRecord } from "../../shared/protocol/agent.ts";
import { wakeOf } from "../../shared/protocol/keys.ts";
import {
  partsOf,
  type ReplyBody,
  type ReplyStatus,
  type StopReason,
  statusOf,
} from "../../shared/protocol/reply.ts";
import { withDeadlineHint } from "../../shared/redis/deadline-hint.ts";
import type { AgentHooks } from "../hooks/hooks.ts";
import { newFailure } from "../loop/log.ts";
import type { Step } from "../loop/next.ts";
import { replyBody } from "../loop/reply-body.ts";
import { RunState } from "../loop/state.ts";
import { observedRun } from "../observe/observer.ts";
import type { ClaimedRun } from "./claim.ts";
import type { RunContext, RunOutcome } from "./context.ts";
import type { Lease } from "./lease.ts";
import { type LeftFiles, leftFiles } from "./run-workspace.ts";
import type { Session } from "./session.ts";

const CRASHED =
  "Three workers in a row crashed in this run before it got any further, the last one while it ran nothing else.";

/** Longest wait of a run's end for the list of its files, ms. */
const LIST_MS = 5_000;

type SettleStep = Extract<Step, { do: "settle" }>;

/** Settles the run with its last entries in the same step; undefined if an unread message keeps it going. */
export async function settleRun(
  context: RunContext,
  session: Session,
  step: SettleStep,
): Promise<RunOutcome | "lease_over" | undefined> {
  const { store, deadlines, wakes, logger } = context;
  const { address, record, lease } = session;
  if (!lease.isLive()) return "lease_over";
  const status = statusOf(step.reason);
  const { hooks, observer } = session.equipment;
  if (hooks && !(await passesStopHooks(session, hooks, { ...step, status }))) return undefined;
  const stays = record.spec.keep_alive && (status === "succeeded" || status === "partial");
  const endedReason = stays ? undefined : status === "failed" ? "failed" : "completed";
  const prepared = await prepareEnd(context, session);
  const settle = () =>
    store.settle(address, {
      authority: "worker",
      target: stays ? "idle" : "ended",
      ended_reason: endedReason,
      status,
      stop_reason: step.reason,
      natural: step.natural,
      idle_ms: record.spec.idle_ms,
      ...prepared.input,
    });
  const hint = () => deadlines.hint(address, Math.min(store.timing.checkMs, record.spec.idle_ms));
  const answer = await (stays ? withDeadlineHint(hint, settle, { logger, uid: address.uid }) : settle());
  if (answer.status === "more") {
    await session.settled(prepared, answer);
    // Redis does not know yet about the call for this message: the delivery is committed before that call, and names it.
    session.isCommitDue = true;
    return undefined;
  }
  if (answer.status === "conflict")
    return (await session.adopt(prepared)) === "lease_over" ? "lease_over" : undefined;
  if (answer.status === "stale") return session.endLease();
  // If the first answer was lost, the second tells how the run ended: as this worker wanted, or otherwise.
  const asWanted = answer.status === "same" && !answer.by_other && answer.ended_reason === endedReason;
  if (answer.status !== "settled" && !asWanted) {
    lease.end("taken");
    return "lease_over";
  }
  await session.settled(prepared);
  const { progress: body } = prepared.update;
  if (answer.agent_status === "queued") await wakes.add(wakeOf(address, record.agent_id, answer.wake));
  observer.settled({ status, stopReason: step.reason, body });
  return { status: "settled", reply: { status, stop_reason: step.reason, turns: body.turns } };
}

/** Prepares the last commit, with the list of the files; if the run goes on, the commits of its next turns do not repeat it. */
async function prepareEnd(context: RunContext, session: Session) {
  if (session.equipment.workspace.opened) session.leftFiles = await listLeftFiles(context, session);
  const prepared = session.prepareCommit(true);
  session.leftFiles = {};
  return prepared;
}

/** Lists the files in the workspace; on a slow volume returns only that there may be some, so the reply does not wait. */
async function listLeftFiles(context: RunContext, { address, record }: Session): Promise<LeftFiles> {
  const { clock, logger, workspaceRoot: root } = context;
  const left = await within(clock, LIST_MS, leftFiles({ root, address, agentId: record.agent_id }));
  if (!left)
    logger.warn({ uid: address.uid }, "The workspace does not answer in time; the reply names no files");
  return left ?? { more_files: true };
}

/**
 * Asks the stop hooks; true if the reply may go out. A hook that holds it back ends the run as failed. No hook is asked
 * about a reply that a message of the parent holds back. If the run is stopped before all answer, all are asked again.
 */
async function passesStopHooks(
  session: Session,
  hooks: AgentHooks,
  { natural, reason: stopReason, status }: SettleStep & { status: ReplyStatus },
): Promise<boolean> {
  const { lease } = session;
  if (natural) {
    await session.refreshInbox();
    if (session.state.unread.length > 0) return false;
  }
  const { summary } = session.body();
  const why = await hooks.stop({ status, stopReason, summary }, lease.workStop);
  if (lease.workStop.isStopped) return false;
  if (why === undefined || status === "failed") return true;
  session.add([newFailure(session.state.userMessageNumber + 1, { v: 1, kind: "model_error", message: why })]);
  return false;
}

/**
 * Settles a run that crashed alone, from its record only, because reading its log may be what crashes. The reply has the
 * progress of the run's last commit.
 */
export function settleCrashed(context: RunContext, claimed: ClaimedRun, lease: Lease): Promise<RunOutcome> {
  return settleFailed(context, claimed, lease, { error: CRASHED });
}

/** Settles a run that broke off again and again. `problem`: what stopped it; `session`: set if it was opened here. */
export function settleBroken(
  context: RunContext,
  claimed: ClaimedRun,
  lease: Lease,
  { problem, session }: { problem: string; session: Session | undefined },
): Promise<RunOutcome> {
  const error = `The run failed again and again without progress: ${problem}`;
  return settleFailed(context, claimed, lease, { error, session });
}

async function settleFailed(
  { store, observer }: RunContext,
  { run, claimAnswer }: ClaimedRun,
  { address, epoch, earlierMs }: Lease,
  { error, session }: { error: string; session?: Session | undefined },
): Promise<RunOutcome> {
  const reason: StopReason = "worker_lost";
  const status = statusOf(reason);
  const record = session?.record ?? AgentRecord.safeParse(Object.fromEntries(claimAnswer?.record ?? [])).data;
  const body: ReplyBody = {
    ...(session?.committedProgress ?? progressAtClaim(record, run)),
    duration_ms: earlierMs,
    error,
  };
  const answer = await store.settle(address, {
    authority: "worker",
    epoch,
    known: 0,
    run,
    running_ms: earlierMs,
    target: "ended",
    ended_reason: "failed",
    status,
    stop_reason: reason,
    progress: partsOf(body).progress,
  });
  const isOurs = answer.status === "same" && answer.ended_reason === "failed";
  if (answer.status !== "settled" && !isOurs) return { status: "lost" };
  const end: RunOutcome = { status: "settled", reply: { status, stop_reason: reason, turns: body.turns } };
  const observed = observer.observe(observedRun(address, { run, name: "", agent_id: "", ...record }));
  observed.settled({ status, stopReason: reason, body });
  observed.end(end);
  return end;
}

/** Returns the progress of the run when it was claimed. */
function progressAtClaim(record: AgentRecord | undefined, run: number): ReplyBody {
  if (record?.progress) return record.progress;
  const limits = { max_turns: 1, max_tokens: 1, max_duration_ms: 1, ...record?.spec.limits };
  const rules = {
    limits,
    model: record?.spec.model ?? "",
    idempotentTools: new Set<string>(),
    canAsk: false,
  };
  return replyBody(new RunState(run), rules);
}
