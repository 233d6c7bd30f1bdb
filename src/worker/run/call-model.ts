/** Performs `call_model`: buys one message of the conversation and adds it to the next commit. */
import {
  ContentBlock,
  isText,
  isToolUse,
  textOf,
  totalTokens,
  type Usage,
} from "../../shared/protocol/content.ts";
import { paceFor } from "../../shared/protocol/limits.ts";
import { wellFormedJson } from "../../shared/protocol/reply.ts";
import { withoutSecrets, withoutSecretsIn } from "../../shared/secrets.ts";
import { goOn, ordinaryTimeMs } from "../loop/caps.ts";
import { newAnswer, newCompacted, newResult } from "../loop/log.ts";
import type { CallStep } from "../loop/next.ts";
import {
  type CallControl,
  type CallOutcome,
  CUT_OFF_KINDS,
  type ModelAnswer,
  type ModelRequest,
} from "../model/model.ts";
import { NO_TOOL_CHOICE, outputConfig } from "../model/request.ts";
import type { RunContext, RunOutcome } from "./context.ts";
import { costOf, reserveCall, settleReservation, withUsage } from "./cost.ts";
import { afterModelFailure, afterModelStopped, afterWait, endUnpriced } from "./failure.ts";
import { type CallPermit, limiterNameOf } from "./provider-limit.ts";
import type { Session } from "./session.ts";
import { tellTextOf } from "./text-feed.ts";

/** Makes the call of `step` if the provider's limit lets it through. */
export async function callModel(
  context: RunContext,
  session: Session,
  step: CallStep,
): Promise<RunOutcome | "lease_over" | undefined> {
  if (session.equipment.unpriced !== undefined) return endUnpriced(context, session, step);
  session.tellTurnStarted(step.turn);
  // Commit first, so that no paid call and no tool is repeated, and a watcher sees the run begin before its first call ends.
  const isDue = session.isCommitDue || (session.isWatched && !session.hasAdvanced);
  const begun = session.purchase.idOf(step);
  if (isDue && (await session.commit({ begun })) !== "committed") return undefined;
  const permit = await acquirePermit(context, session, step);
  if (permit.status !== "open")
    return session.lease.isLive() ? afterWait(context, session, permit) : "lease_over";
  if (!(await reserveOrLeave(context, session, step, permit))) return undefined;
  const { clock } = context;
  const { observer } = session.equipment;
  observer.callBegins(step.turn, session.model);
  const startedMs = clock.monotonicMs();
  const { outcome, isCutOff, isLate } = await makeCall(context, session, step, permit);
  settleReservation(context, session, outcome.status === "answer" ? outcome.answer.usage : outcome.usage);
  const scope = await permit.release(outcome);
  if (outcome.status === "answer") {
    addModelAnswer(context, session, step, redactedAnswer(outcome.answer), clock.monotonicMs() - startedMs);
    return undefined;
  }
  const cost = outcome.usage ? costOf(context, session, outcome.usage) : 0;
  observer.callFailed(outcome.status === "failed" ? outcome.failure.kind : "aborted", outcome.usage, cost);
  if (outcome.usage) {
    const { message, compactBefore } = step;
    session.addUnusedCall(message, { usage: outcome.usage, costUsd: cost }, { isCutOff, compactBefore });
    tellTurnFinished(session, step, outcome.usage, cost);
  }
  if (!session.lease.isLive()) return "lease_over";
  if (outcome.status === "failed") return afterModelFailure(context, session, step, outcome.failure, scope);
  const isEndedHere =
    isLate || context.abandoned.aborted || session.lease.runningMs() >= untilMs(session, step);
  return isEndedHere ? undefined : afterModelStopped(context, session);
}

/**
 * Returns a permit for the first model of the chain that may be called now; each failure in a row starts one model further.
 * If none may, returns the answer of the one that may be asked first.
 */
async function acquirePermit(
  { provider, model }: RunContext,
  session: Session,
  { turn }: CallStep,
): Promise<CallPermit> {
  const { lease, equipment, attempts } = session;
  const { models } = equipment;
  const asked: string[] = [];
  let soonest: { permit: CallPermit & { status: "wait" }; of: string } | undefined;
  for (let i = 0; ; i++) {
    session.model = models[(attempts + i) % models.length] ?? session.model;
    const name = limiterNameOf(model, session.model);
    const permit = await provider.acquire(name, lease, { resumes: turn > 1 });
    if (permit.status === "open") for (const other of asked) provider.leave(other, lease);
    if (permit.status !== "wait" || !lease.isLive()) return permit;
    asked.push(name);
    if (!soonest || permit.waitMs < soonest.permit.waitMs) soonest = { permit, of: session.model };
    if (i + 1 < models.length) continue;
    session.model = soonest.of;
    return soonest.permit;
  }
}

type OpenPermit = Extract<CallPermit, { status: "open" }>;

/** Reserves the call in the budgets, now that the provider lets it through. If it may not begin, releases the permit. */
async function reserveOrLeave(
  context: RunContext,
  session: Session,
  step: CallStep,
  permit: OpenPermit,
): Promise<boolean> {
  let mayBegin = false;
  try {
    const isReserved = session.lease.isLive() && (await reserveCall(context, session, step));
    mayBegin = isReserved && session.lease.isLive();
    if (isReserved && !mayBegin) settleReservation(context, session);
  } finally {
    if (!mayBegin) await permit.release({ status: "aborted" });
  }
  return mayBegin;
}

/** Returns the running time at which the call is cut off, ms, so that the steps after it still have time. */
function untilMs({ rules }: Session, { finalCall, asksOutput }: CallStep): number {
  // A request to repair the output may also come after ordinary time is over: cut off at once, it would be repeated.
  return finalCall || asksOutput ? rules.limits.max_duration_ms : ordinaryTimeMs(rules.limits);
}

/** Wait for the answer of a destroyed run, ms: if it comes, its price is known and not estimated. */
export const BILL_GRACE_MS = 250;

/** Makes the call. `isCutOff`: this side ended it before the provider was done. `isLate`: not sent, its permit was outdated. */
async function makeCall(context: RunContext, session: Session, step: CallStep, permit: OpenPermit) {
  const { model, clock, abandoned } = context;
  const { lease, equipment } = session;
  const text =
    session.isWatched && step.compactBefore === undefined
      ? context.texts.open(step.turn, tellTextOf(context, session))
      : undefined;
  let hasBegun = false;
  let isLate = false;
  let grace: { cancel(): void } | undefined;
  const control: CallControl = {
    mayBegin() {
      isLate = !permit.holds();
      hasBegun = !isLate && lease.isLive() && !abandoned.aborted;
      session.hasCalled ||= hasBegun;
      return hasBegun;
    },
    abortCall: null,
    onText: text && ((delta) => grace ?? text.push(delta)),
    deadlineMs: clock.monotonicMs() + untilMs(session, step) - lease.runningMs(),
  };
  const abort = () => control.abortCall?.("the run was stopped");
  const forget = session.lease.workStop.onStop(() => {
    if (lease.endReason === "taken") grace = clock.timeout(BILL_GRACE_MS, abort);
    else abort();
  });
  const request = requestOf(session, step, text !== undefined || equipment.isStreamed);
  if (context.sendsTraceparent) request.traceparent = equipment.observer.traceparent;
  request.idempotencyKey = session.purchase.requestKeys.keyOf(request.purchaseId, request);
  const startedMs = clock.monotonicMs();
  const ended = await model.call(request, control);
  if (maySilenceBeTheCause(ended, clock.monotonicMs() - startedMs)) equipment.isStreamed = true;
  if (ended.status !== "answer") session.purchase.requestKeys.noteFailed(request.purchaseId, request);
  grace?.cancel();
  forget();
  text?.close();
  const outcome = hasBegun ? withUsage(ended, session, request) : ended;
  // If the failure has a usage, the provider ended the answer that it had begun.
  const isCutOff = ended.status === "aborted" || (ended.status === "failed" && ended.usage === undefined);
  return { outcome, isCutOff, isLate };
}

/** A gateway that ends silent connections does so after 30 s or more. */
const SHORTEST_SILENCE_MS = 20_000;

/** Returns true if the connection may have been cut off for its silence: a streamed answer is let through. */
function maySilenceBeTheCause(ended: CallOutcome, durationMs: number): boolean {
  const isCutOff = ended.status === "failed" && CUT_OFF_KINDS.has(ended.failure.kind);
  return isCutOff && durationMs >= SHORTEST_SILENCE_MS;
}

function requestOf(session: Session, step: CallStep, stream: boolean): ModelRequest {
  const { equipment, rules, state } = session;
  const { messages, cachedLength } = state.conversation.messagesOf(step);
  const pace = paceFor(session.model, equipment.pace);
  const format = step.asksOutput ? equipment.outputFormat : "";
  const { member, beta } = outputConfig(pace, state.conversation.summedUpTokens, format);
  return {
    model: session.model,
    head: equipment.requestHead,
    messages,
    cachedLength,
    extra: [toolChoiceOf(step, equipment), member].filter(Boolean).join(","),
    stream,
    maxTokens: rules.limits.max_tokens,
    purchaseId: session.purchase.idOf(step),
    ...(beta && { beta }),
  };
}

/** Forbids tools in a final call, in a call for the output and in a summary. */
function toolChoiceOf(
  { finalCall, asksOutput, compactBefore }: CallStep,
  { tools }: Session["equipment"],
): string {
  return (finalCall || asksOutput || compactBefore !== undefined) && tools.size > 0 ? NO_TOOL_CHOICE : "";
}

/** An answer with its cost and duration. */
interface PricedAnswer extends ModelAnswer, Pick<CallStep, "turn" | "finalCall"> {
  costUsd: number;
  durationMs: number;
}

/** Adds the answer of the call, and its cost. */
function addModelAnswer(
  context: RunContext,
  session: Session,
  step: CallStep,
  answer: ModelAnswer,
  durationMs: number,
): void {
  const { turn, finalCall, compactBefore } = step;
  const { contentJson, content, refusedCalls, stopReason, refusal, model, usage } = answer;
  const costUsd = costOf(context, session, usage);
  const priced: PricedAnswer = {
    turn,
    finalCall,
    contentJson,
    content,
    refusedCalls,
    stopReason,
    refusal,
    model,
    usage,
    costUsd,
    durationMs,
  };
  if (compactBefore === undefined) addAnswer(session, step, priced);
  else addSummary(session, step, compactBefore, priced);
  tellTurnFinished(session, step, usage, costUsd);
  session.equipment.observer.answered(priced);
}

/** Tells what a call has cost, whether or not its answer can be used: those who watch add it up. */
function tellTurnFinished(session: Session, { turn }: CallStep, usage: Usage, cost_usd: number): void {
  session.tell({ type: "turn_finished", turn, tokens: totalTokens(usage), cost_usd });
}

/** Adds the answer, and results for those of its calls that cannot be performed. */
function addAnswer(session: Session, { message }: CallStep, answer: PricedAnswer): void {
  session.add([newAnswer(message, answer, answer.durationMs)]);
  for (const [id, sentence] of answer.refusedCalls)
    session.add([newResult(message, id, sentence, { isError: true, isRefused: true })]);
}

/** Stop reasons after which the text of an answer is a summary, possibly a cut one. */
const SUMMARY_ENDS: ReadonlySet<string> = new Set(["end_turn", "stop_sequence", "max_tokens"]);

/** Adds the summary if it makes the conversation shorter; otherwise adds a paid call without a usable answer. */
function addSummary(
  session: Session,
  { message, turn }: CallStep,
  compactBefore: number,
  answer: PricedAnswer,
): void {
  const { state } = session;
  const { model, usage, costUsd, durationMs, stopReason } = answer;
  const summary = textOf(answer.content).trim();
  const isUsable = summary !== "" && SUMMARY_ENDS.has(stopReason);
  if (!isUsable || !state.conversation.isShorter(compactBefore, summary)) {
    session.addUnusedCall(message, answer, { isCutOff: false, compactBefore });
    return;
  }
  const price = { usage, cost_usd: costUsd, duration_ms: Math.round(durationMs) };
  const value = { v: 1 as const, before: compactBefore, summary, model, ...price, ...goOn(state) };
  session.add([newCompacted(message - 1, value)]);
  session.tell({ type: "compacted", turn, before: compactBefore });
}

/** Deeper than any block of an answer. */
const BLOCK_DEPTH = 128;

/**
 * Returns the answer without the secrets of this process that its model may have read: so the log, all that follows from it
 * and the tools never get them. Thinking is signed and must go back whole or not at all: if a block of it has a secret, all
 * of it is left out.
 */
export function redactedAnswer(received: ModelAnswer): ModelAnswer {
  const answer = withoutSplitSecrets(received);
  const { stopReason, model, refusal } = answer;
  const named = {
    stopReason: withoutSecrets(stopReason),
    model: withoutSecrets(model),
    refusal: refusal && withoutSecrets(refusal),
  };
  // Each text by itself: in the JSON of the whole, JSON within a text would be escaped once more.
  const shown: unknown[] = [];
  let isClean = true;
  for (const block of answer.content) {
    const shownBlock = withoutSecretsIn(block, BLOCK_DEPTH);
    isClean &&= shownBlock === block;
    shown.push(shownBlock);
  }
  if (isClean) {
    const isNamedSo = named.stopReason === stopReason && named.model === model && named.refusal === refusal;
    return isNamedSo ? answer : { ...answer, ...named };
  }
  const hidesThinking = answer.content.some((block, i) => isSigned(block) && block !== shown[i]);
  const ids = new Map<string, string>();
  const content = answer.content.flatMap((block, i): ContentBlock[] => {
    if (hidesThinking && isSigned(block)) return [];
    const clean = ContentBlock.parse(shown[i]);
    if (!isToolUse(block) || !isToolUse(clean)) return [clean];
    const id = clean.id === block.id ? block.id : unusedId(answer, ids);
    ids.set(block.id, id);
    return [{ ...clean, id }];
  });
  const refused = [...answer.refusedCalls].map(([id, why]) => [ids.get(id) ?? id, why] as const);
  const json = wellFormedJson(JSON.stringify(content));
  return { ...answer, ...named, content, contentJson: json, refusedCalls: new Map(refused) };
}

/** If a secret is split over several text blocks, returns the answer with one block that has all texts without the secret. */
function withoutSplitSecrets(answer: ModelAnswer): ModelAnswer {
  const texts = answer.content.filter(isText);
  if (texts.length < 2) return answer;
  const joined = texts.map(({ text }) => withoutSecrets(text)).join("");
  const text = withoutSecrets(joined);
  if (text === joined) return answer;
  const content = answer.content.flatMap((block): ContentBlock[] =>
    block === texts[0] ? [{ type: "text", text }] : isText(block) ? [] : [block],
  );
  return { ...answer, content, contentJson: wellFormedJson(JSON.stringify(content)) };
}

function isSigned(block: ContentBlock): boolean {
  return block.type === "thinking" || block.type === "redacted_thinking" || "signature" in block;
}

function unusedId({ content }: ModelAnswer, given: ReadonlyMap<string, string>): string {
  const taken = new Set([...content.map((block) => block.id), ...given.values()]);
  let k = 1;
  while (taken.has(`call_${k}`)) k += 1;
  return `call_${k}`;
}
