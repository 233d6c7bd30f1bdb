/**
 * Decides what happens to a run that cannot continue because of a failure, a limit or a lost lease: retry here, hand-back, or
 * end. Elsewhere: hand-back between two steps (`run.ts`), return of a wake that was not claimed (`claim.ts`), and whether this
 * worker or its model ended an aborted call (`call-model.ts`).
 *
 * | what happened | what follows |
 * |---|---|
 * | the provider fails, and may not the next time | retry after a back-off; a long one frees the worker's slot |
 * | the provider limits one model of several, or does not know it | the next one of the chain that may be called, at once |
 * | the conversation is too long for the model, and old tool results can be left out, or old messages summed up | the same call without them |
 * | the provider refuses the request for good | the run ends `model_error` or `context_window` |
 * | the final call went beyond a budget, and its answer cannot be used | the run ends with the final call's cause |
 * | a cap in USD binds the run, and this worker knows no price of its model | the run ends `model_error`, nothing is bought |
 * | the limiter says wait, the installation is paused | retry later; a long wait frees the slot |
 * | the model of this process was stopped | hand-back |
 * | Redis refuses a write for a while (too few replicas, a full disk) | the write waits and is sent again (`write-retry.ts`) |
 * | the lease expired, or Redis lost a part of the log | hand-back unless another worker took the run: at once, and without progress with a growing delay |
 * | the disk of the workspaces is full | hand-back with a growing delay, however often |
 * | something broke here (a bug, a disk that refuses) | hand-back with a growing delay; at last the run ends `worker_lost` |
 */

import { saysDiskFull } from "../../shared/disk.ts";
import { isUnreadable, messageOf } from "../../shared/errors.ts";
import type { AgentRecord, ProviderWait } from "../../shared/protocol/agent.ts";
import { type AgentAddress, wakeOf } from "../../shared/protocol/keys.ts";
import { eventLine, type RunEvent } from "../../shared/protocol/reply.ts";
import { quoted } from "../../shared/protocol/text.ts";
import { withDeadlineHint } from "../../shared/redis/deadline-hint.ts";
import type { VerbInput } from "../../shared/redis/scripts.ts";
import { makeRoom } from "../loop/caps.ts";
import { newFailure } from "../loop/log.ts";
import type { CallStep } from "../loop/next.ts";
import type { ModelFailure } from "../model/model.ts";
import { retryDelayMs } from "../model/retry.ts";
import type { ClaimedRun } from "./claim.ts";
import type { RunContext, RunOutcome } from "./context.ts";
import { chargeUnbooked } from "./cost.ts";
import type { Lease } from "./lease.ts";
import { type CallPermit, type FailureScope, isDenial, providerName } from "./provider-limit.ts";
import type { Session } from "./session.ts";
import { settleBroken } from "./settle-run.ts";

/** The worker sleeps through waits up to this long; a longer one frees its slot. */
const LONGEST_HELD_WAIT_MS = 2_000;
/** Least delay before a run of a paused installation is taken again; the paused queue keeps it until the pause ends. */
const PAUSED_ASK_MS = 1_000;
/** Delay of a run whose model was stopped: for another worker, or for this one after it recovers. */
const MODEL_STOPPED_DELAY_MS = 5_000;
/** First delay before a run that broke off is retried, on any worker; it doubles up to a limit. */
const BROKEN_OFF_DELAY_MS = 5_000;
const LONGEST_BROKEN_OFF_DELAY_MS = 5 * 60_000;
/** Breaks in a row that end the run: enough for a disk that refuses for some minutes. */
const MOST_BREAKS = 8;
const LEASE_LOST = "its lease was lost, or Redis has forgotten a part of its log";
/** Breaks that end a run with unreadable data: its parent is told within a minute. */
const MOST_UNREADABLE = 3;

const NO_SECOND_REPORT =
  "The budget is spent, and the last call, which was to report the results, was paid for without an answer that can be used.";

/** Reacts to a failure of the provider. */
export async function afterModelFailure(
  context: RunContext,
  session: Session,
  step: CallStep,
  failure: ModelFailure,
  scope: FailureScope,
): Promise<RunOutcome | "lease_over" | undefined> {
  const { random, logger, store } = context;
  logger.warn({ uid: session.address.uid, turn: step.turn, ...failure }, "Model call failed");
  if (session.isBeyondBudget) {
    session.add([newFailure(step.message, failureEntry({ ...failure, message: NO_SECOND_REPORT }, step))]);
    return undefined;
  }
  if (failure.kind === "invalid_request" && step.asksOutput && session.equipment.outputFormat !== "") {
    // Some providers do not know the format, and none knows all of its schemas: the instructions also ask for it.
    session.equipment.outputFormat = "";
    return undefined;
  }
  if (failure.kind === "not_found" && withoutModel(session)) return undefined;
  if (failure.kind === "context_window" && canShorten(session, step)) return undefined;
  if (!failure.retryable) {
    // If another run found the refused credential (`shared`), this run asks again.
    if (scope === "own" || !isDenial(failure.kind)) {
      const message = sentenceOf(failure, session.model);
      session.add([newFailure(step.message, failureEntry({ ...failure, message }, step))]);
    }
    return undefined;
  }
  session.attempts += 1;
  // Another model of the chain may not be affected; if all are, their limiters know which is free first.
  if (scope === "shared" && session.equipment.models.length > 1) {
    session.tell({ type: "model_retry", turn: step.turn, kind: failure.kind, delay_ms: 0 });
    return undefined;
  }
  const ownDelayMs = retryDelayMs(failure, session.attempts, random());
  // The limiter keeps the rest of the wait, and knows if it is over earlier.
  const delayMs = scope === "shared" ? Math.min(ownDelayMs, store.timing.limiterAskMs) : ownDelayMs;
  session.tell({ type: "model_retry", turn: step.turn, kind: failure.kind, delay_ms: delayMs });
  return waitOrRelease(context, session, failure.kind, delayMs);
}

/** Ends the run before its next call: without a known price a cap in USD would never be reached. */
export function endUnpriced({ logger }: RunContext, session: Session, step: CallStep): undefined {
  const { unpriced: model } = session.equipment;
  const message = `This worker does not know the price of model "${model}", so max_cost_usd cannot be kept: give all workers the prices that spawns are checked with (SUBAGENT_PRICES, or prices of createWorker).`;
  logger.error({ uid: session.address.uid, model }, "The price of a model with a cap in USD is not known");
  session.add([newFailure(step.message, failureEntry({ kind: "model_error", message }, step))]);
}

/** Returns true if the run can continue with a shorter conversation; after a failed summary the next one covers less. */
function canShorten({ state, rules }: Session, { compactBefore }: CallStep): boolean {
  if (compactBefore === undefined) state.tooLongAtMessage = state.userMessageNumber;
  else state.unsummedAtMessage = Math.min(state.unsummedAtMessage, compactBefore);
  return compactBefore !== undefined || makeRoom(state, rules) !== undefined;
}

/** Removes a model that the provider does not know from the chain; false if it is the only one. */
function withoutModel({ equipment, model }: Session): boolean {
  const left = equipment.models.filter((other) => other !== model);
  if (left.length === 0) return false;
  equipment.models = left;
  return true;
}

/** Returns the provider's sentence. For an unknown model it says little more than the name, so ours comes first. */
function sentenceOf({ kind, message }: ModelFailure, model: string): string {
  if (kind !== "not_found") return message;
  return `The provider does not know the model ${quoted(model)}, or its address is wrong: name a model that it serves. It says: ${message}`;
}

function failureEntry(failure: { kind: string; message: string }, { finalCall }: CallStep) {
  const kind: "context_window" | "model_error" =
    failure.kind === "context_window" ? "context_window" : "model_error";
  return { v: 1 as const, kind, message: failure.message, ...(finalCall && { hand_back: finalCall }) };
}

/** Reacts to a limiter that does not let the call through. A claim that only asked the limiter adds no running time. */
export async function afterWait(
  context: RunContext,
  session: Session,
  permit: Exclude<CallPermit, { status: "open" }>,
): Promise<RunOutcome | "lease_over" | undefined> {
  const { lease, hasAdvanced, hasCalled } = session;
  const runningMs = hasAdvanced || hasCalled ? lease.runningMs() : lease.earlierMs;
  if (permit.status === "paused")
    return commitAndRelease(context, session, { reason: "paused", delayMs: PAUSED_ASK_MS, runningMs });
  return waitOrRelease(context, session, permit.reason, permit.waitMs, runningMs);
}

/** Hands the run back because this process' model was stopped and ended the call: a retry here would spin. */
export function afterModelStopped(context: RunContext, session: Session): Promise<RunOutcome | "lease_over"> {
  return commitAndRelease(context, session, { reason: "model_stopped", delayMs: MODEL_STOPPED_DELAY_MS });
}

/**
 * Called after the lease expired, another worker took the run, or the log turned out shorter than expected. Late renewals
 * may have extended an expired lease, so the run is released explicitly. A run that another worker took is left alone.
 */
export async function afterLeaseLoss(
  context: RunContext,
  claimed: ClaimedRun,
  session: Session,
): Promise<RunOutcome> {
  const { lease, record, attempts } = session;
  lease.end("expired");
  const breaks = session.breaks + 1;
  const isLast = lease.endReason === "expired" && breaks >= MOST_BREAKS;
  await chargeUnbooked(context, session, isLast);
  if (lease.endReason !== "expired") return { status: "lost" };
  const lost = (): RunOutcome => ({ status: "lost" });
  if (isLast) return settleBroken(context, claimed, lease, { problem: LEASE_LOST, session }).catch(lost);
  // The first time it counts as an outage; a lease lost again before the run advanced counts as a run that broke off.
  const delayMs = breaks === 1 ? 0 : brokenOffDelayMs(breaks - 1);
  if (breaks === 2)
    context.logger.error({ uid: lease.address.uid, breaks }, "Run loses its lease again and again");
  return releaseRun(context, { lease, record, attempts, breaks }, { reason: "lease_lost", delayMs }).catch(
    lost,
  );
}

function brokenOffDelayMs(breaks: number): number {
  return Math.min(BROKEN_OFF_DELAY_MS * 2 ** (breaks - 1), LONGEST_BROKEN_OFF_DELAY_MS);
}

/** Reacts to an error in this process; the process or the run may be its cause. */
export async function afterError(
  context: RunContext,
  held: { claimed: ClaimedRun; lease: Lease; session: Session | undefined },
  error: unknown,
): Promise<RunOutcome> {
  const { claimed, lease, session } = held;
  const isFull = saysDiskFull(error);
  const breaks = (session ?? claimed).breaks + (isFull ? 0 : 1);
  const problem = messageOf(error);
  const isTaken = lease.endReason === "taken";
  const { uid } = lease.address;
  if (isTaken) context.logger.debug({ uid, problem }, "Run broke off here, and is over or another worker's");
  else context.logger.error({ uid, breaks, problem }, "Run broke off and is handed back");
  const isLast = !isTaken && breaks >= (isUnreadable(error) ? MOST_UNREADABLE : MOST_BREAKS);
  // `release` clears the mark of a call under way, so the next claim reports none: its cost is booked here.
  if (session) await chargeUnbooked(context, session, isLast);
  if (isTaken) return { status: "lost" };
  if (isLast) return settleBroken(context, claimed, lease, { problem, session });
  const attempts = (session ?? claimed).attempts + 1;
  const delayMs = brokenOffDelayMs(isFull ? attempts : breaks);
  const broken = { lease, record: session?.record, attempts, breaks };
  // `claimAnswer` is set until the session is open; opening it also charges the lost call.
  const { claimAnswer } = claimed;
  const lostCall = claimAnswer?.status === "claimed" ? claimAnswer.lost_call : undefined;
  return releaseRun(context, broken, { reason: isFull ? "disk_full" : "broken_off", delayMs, lostCall });
}

/** Sleeps through a short wait; a long one frees the worker's slot. */
async function waitOrRelease(
  context: RunContext,
  session: Session,
  reason: string,
  delayMs: number,
  runningMs?: number,
): Promise<RunOutcome | "lease_over" | undefined> {
  if (delayMs > LONGEST_HELD_WAIT_MS) {
    const provider = providerName(context.model, session.model);
    const providerWait = { provider, reason };
    return commitAndRelease(context, session, { reason, delayMs, runningMs, providerWait });
  }
  await session.lease.rest(delayMs);
  return undefined;
}

/** Hands the run back after committing everything that was paid for. */
async function commitAndRelease(
  context: RunContext,
  session: Session,
  how: ReleaseInput,
): Promise<RunOutcome | "lease_over"> {
  if (session.isCommitDue && (await session.commit()) === "lease_over") return "lease_over";
  return releaseRun(context, session, how);
}

/** A run that this process holds. */
export interface HeldRun {
  lease: Lease;
  /** Undefined if it could not be read. */
  record?: AgentRecord | undefined;
  /** Failures since the run last advanced; the next holder continues the count. */
  attempts: number;
  /** How often in a row the run has broken off before it advanced. */
  breaks: number;
  /** Events that Redis does not have yet. The next holder repeats those of beginnings; the release includes the rest. */
  events?: readonly RunEvent[];
}

/**
 * Reason and delay of a release. `runningMs`: running time of the run, default that of now. `providerWait`: the run waits for
 * its provider. `lostCall`: the next holder must charge it.
 */
export interface ReleaseInput {
  reason: string;
  delayMs: number;
  runningMs?: number | undefined;
  providerWait?: ProviderWait | undefined;
  lostCall?: string | undefined;
}

/** Releases the run, and notes that in its timeline. */
export async function releaseRun(
  context: RunContext,
  { lease, record, attempts, breaks, events = [] }: HeldRun,
  { reason, delayMs, runningMs = lease.runningMs(), providerWait, lostCall }: ReleaseInput,
): Promise<RunOutcome> {
  const { address, epoch } = lease;
  return releaseAgent(context, address, reason, {
    agentId: record?.agent_id,
    epoch,
    attempts,
    breaks,
    delay_ms: Math.ceil(delayMs),
    running_ms: runningMs,
    provider_wait: providerWait && JSON.stringify(providerWait),
    lost_call: lostCall,
    events: eventLine([
      ...events.filter(({ type }) => type === "model_retry"),
      { type: "released", turn: 0, reason },
    ]),
  });
}

/**
 * Hands an agent back, also one that a process of suspects held. Sends the deadline hint and the verb in one flight, then
 * adds the wake, with the `agentId` if it is known.
 */
export async function releaseAgent(
  { store, deadlines, wakes, logger }: Pick<RunContext, "store" | "deadlines" | "wakes" | "logger">,
  address: AgentAddress,
  reason: string,
  { agentId = address.uid, ...release }: VerbInput<"release"> & { agentId?: string | undefined },
): Promise<RunOutcome & { status: "lost" | "released" }> {
  const answer = await withDeadlineHint(
    () => deadlines.hint(address, release.delay_ms + store.timing.checkMs),
    () => store.release(address, release),
    { logger, uid: address.uid },
  );
  if (answer.status === "stale") return { status: "lost" };
  await wakes.add(wakeOf(address, agentId, answer.wake), release.delay_ms);
  return { status: "released", reason };
}
