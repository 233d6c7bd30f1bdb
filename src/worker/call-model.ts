/** Performs `call_model`: buys one message of the conversation and commits it, or decides what its failure means. */

import { type ContentBlock, isToolUse, totalTokens, type Usage } from "../shared/protocol/content.ts";
import { type AssistantEntry, entryKey, type FailureEntry } from "../shared/protocol/log.ts";
import { costUsd, priceOf } from "../shared/protocol/pricing.ts";
import { ordinaryTimeMs } from "./loop/caps.ts";
import { conversation } from "./loop/conversation.ts";
import type { Step } from "./loop/next.ts";
import { systemPrompt } from "./loop/system-prompt.ts";
import { passGate, type Verdict } from "./model/gate.ts";
import type { ModelFailure, ModelRequest, ModelTurn } from "./model/model.ts";
import { LONGEST_HELD_WAIT_MS, retryDelayMs } from "./model/retry.ts";
import { releaseRun } from "./release-run.ts";
import type { RunContext, RunEnd } from "./run-context.ts";
import type { Session } from "./session.ts";
import { openStepSignal } from "./step-signal.ts";

type CallStep = Extract<Step, { do: "call_model" }>;

/** A run whose worker has no model any more is for another worker, or for this one when it is whole again. */
const MODEL_STOPPED_DELAY_MS = 5_000;

/** Makes the call of `step`, when the provider's gate lets it through. */
export async function callModel(
  context: RunContext,
  session: Session,
  step: CallStep,
): Promise<RunEnd | undefined> {
  const { clock, model } = context;
  const { limits } = session.rules;
  const { report } = session;
  const passage = await passGate(context, session);
  if (passage.status === "shut") return passage.end;
  const stepSignal = openStepSignal(
    context,
    session,
    step.handBack ? limits.max_duration_ms : ordinaryTimeMs(limits),
  );
  const text = report.textOf(step.turn);
  report.turnStarted(step.turn);
  const startedMs = clock.monotonicMs();
  const outcome = await model
    .call(requestOf(context, session, step), {
      signal: stepSignal.signal,
      mayBegin: session.lease.isLive,
      onText: text.push,
    })
    .finally(() => {
      stepSignal.done();
      text.flush();
    });
  const verdict = await passage.leave(outcome);
  if (!session.lease.isLive()) return { status: "lost" };
  switch (outcome.status) {
    case "turn":
      return commitTurn(context, session, step, outcome.turn, clock.monotonicMs() - startedMs);
    case "aborted":
      return (
        (await chargeFor(context, session, step, outcome.usage)) ??
        (stepSignal.signal.aborted ? undefined : handBackUncalled(context, session))
      );
    case "failed":
      return (
        (await chargeFor(context, session, step, outcome.usage)) ??
        fail(context, session, step, outcome.failure, verdict)
      );
  }
}

function requestOf({ roots }: RunContext, session: Session, step: CallStep): ModelRequest {
  const { spec } = session.record;
  const open = roots.map(({ path, mode }) => ({ path, readOnly: mode === "ro" }));
  return {
    model: spec.model,
    system: systemPrompt(spec.system, open, session.rules.canAsk),
    tools: session.tools.map(({ name, description, inputSchema }) => ({
      name,
      description,
      input_schema: inputSchema,
    })),
    toolChoice: step.handBack ? "none" : "auto",
    messages: conversation(session.known(), step.handBack),
    maxTokens: spec.limits.max_tokens,
    idempotencyKey: `${session.address.uid}.${step.message}.${session.lease.epoch}`,
  };
}

async function commitTurn(
  context: RunContext,
  session: Session,
  step: CallStep,
  turn: ModelTurn,
  durationMs: number,
): Promise<RunEnd | undefined> {
  const { report } = session;
  const cost = costOf(context, session, turn.usage);
  const entry: AssistantEntry = {
    v: 1,
    role: "assistant",
    content: withUniqueIds(turn.content),
    stop_reason: turn.stopReason,
    model: turn.model,
    usage: turn.usage,
    cost_usd: cost,
    duration_ms: Math.round(durationMs),
    ...(step.handBack && { hand_back: step.handBack }),
  };
  const committed = await session.commit([[entryKey.message(step.message), entry]], {
    step: {
      run: session.record.run,
      turn: step.turn,
      model: turn.model,
      ms: entry.duration_ms,
      ...turn.usage,
    },
  });
  if (committed === "lost") return { status: "lost" };
  if (committed === "adopted") return chargeFor(context, session, step, turn.usage);
  report.turnFinished(step.turn, totalTokens(turn.usage), cost);
  return undefined;
}

/** Nobody here ended the call: the model itself was stopped, and asking it again would spin. */
function handBackUncalled(context: RunContext, session: Session): Promise<RunEnd> {
  return releaseRun(context, session, { reason: "model_stopped", delayMs: MODEL_STOPPED_DELAY_MS });
}

/** Usage of a call that brought no message was paid for all the same. */
async function chargeFor(
  context: RunContext,
  session: Session,
  step: CallStep,
  usage: Usage | undefined,
): Promise<RunEnd | undefined> {
  if (!usage || totalTokens(usage) === 0) return undefined;
  const committed = await session.commitPurchase(step.message, usage, costOf(context, session, usage));
  return committed === "lost" ? { status: "lost" } : undefined;
}

/** The one place where retrying is decided: what may succeed later is tried again, the rest ends the run. */
async function fail(
  context: RunContext,
  session: Session,
  step: CallStep,
  failure: ModelFailure,
  verdict: Verdict,
): Promise<RunEnd | undefined> {
  const { clock, random, logger, store } = context;
  logger.warn({ uid: session.address.uid, turn: step.turn, ...failure }, "Model call failed");
  if (!failure.retryable) {
    if (verdict === "shared") return undefined;
    const entry: FailureEntry = {
      v: 1,
      kind: failure.kind === "context_window" ? "context_window" : "model_error",
      message: failure.message,
      ...(step.handBack && { hand_back: step.handBack }),
    };
    const committed = await session.commit([[entryKey.failure(step.message), entry]]);
    return committed === "lost" ? { status: "lost" } : undefined;
  }
  session.retries += 1;
  const ownDelayMs = retryDelayMs(failure, session.retries, random());
  // The gate remembers the rest, and knows when it is over earlier.
  const delayMs = verdict === "shared" ? Math.min(ownDelayMs, store.timing.gateAskMs) : ownDelayMs;
  session.report.modelRetry(step.turn, failure.kind, delayMs);
  if (delayMs > LONGEST_HELD_WAIT_MS) return releaseRun(context, session, { reason: failure.kind, delayMs });
  await session.lease.rest(clock.sleep(delayMs, session.lease.signal));
  return undefined;
}

function costOf({ prices }: RunContext, { record }: Session, usage: Usage): number {
  const price = priceOf(record.spec.model, prices);
  return price ? costUsd(usage, price) : 0;
}

/** A model may give two calls of one message the same id; results could not be told apart. */
function withUniqueIds(content: readonly ContentBlock[]): ContentBlock[] {
  const used = new Set<string>();
  return content.map((block) => {
    if (!isToolUse(block)) return block;
    let id = block.id;
    for (let k = 2; used.has(id); k++) id = `${block.id}_${k}`;
    used.add(id);
    return id === block.id ? block : { ...block, id };
  });
}
