/**
 * Decides how much the caps, the log and the context window still allow a run.
 *
 * The caps allow the next model call as an ordinary one, or only as the final call, which asks for the findings, or not at all.
 * Time, tokens and money take effect early, so that a final call still fits. A request that does not fit into what is left omits
 * tool results, like a request that is too long for the model. A cap takes effect at three places: `next` asks here before
 * each call; a call under way ends at its `deadlineMs` (`call-model.ts`); and tools are stopped when only the time of the final
 * call is left (`run-tools.ts`).
 *
 * The log has a limit of its own, because every claim reads all of it, also the parts that requests omit. A full log is a
 * cap: the calls of its last turn are not begun (`next.ts`).
 *
 * Requests omit old tool results when the context window fills; if that is not enough, a summary replaces earlier messages.
 * Only the provider knows the size of the window, so a summary is bought only after its refusal or a cut-off answer.
 */
import { totalTokens, ZERO_USAGE } from "../../shared/protocol/content.ts";
import type { Limits } from "../../shared/protocol/limits.ts";
import type { ClearedEntry } from "../../shared/protocol/log.ts";
import type { CapReason } from "../../shared/protocol/reply.ts";
import type { Clearable } from "./conversation.ts";
import type { RunRules } from "./rules.ts";
import type { RunState } from "./state.ts";
import { BYTES_PER_TOKEN, tokensIn } from "./tokens.ts";

/** Time kept for the final call, at most half of the run's duration. */
export const FINAL_CALL_RESERVE_MS = 60_000;

/** The rules on which the caps depend. */
export type CapRules = Pick<RunRules, "limits" | "promptUsd" | "lacksTools">;

/** The next model call that the caps allow. */
export type AllowedCall =
  | { call: "ordinary" }
  | { call: "final"; cause: CapReason }
  | { call: "none"; cause: CapReason };

/** Returns the next model call of the run that the caps allow. */
export function nextAllowedCall(state: RunState, rules: CapRules): AllowedCall {
  const { limits } = rules;
  const over = exceeded(state, limits);
  if (over) return { call: "none", cause: over };
  // A run without findings has nothing to report: it buys nothing for a parent that wants an end, or from a spent budget.
  const stopped = state.finish ? "finished_by_parent" : state.overBudget?.cap;
  if (stopped && state.turns === 0) return { call: "none", cause: stopped };
  // A provider may refuse a conversation with tool calls that has no tool on offer.
  if (state.finish && rules.lacksTools) return { call: "none", cause: "finished_by_parent" };
  const cause = finalCallCause(state, rules);
  return cause ? { call: "final", cause } : { call: "ordinary" };
}

/** Returns the running time after which ordinary calls and tools are stopped, so that the final call still fits. */
export function ordinaryTimeMs(limits: Limits): number {
  return limits.max_duration_ms - Math.min(FINAL_CALL_RESERVE_MS, limits.max_duration_ms / 2);
}

function exceeded({ paidCalls, elapsedMs, tally }: RunState, limits: Limits): CapReason | undefined {
  if (paidCalls >= limits.max_turns) return "max_turns";
  if (elapsedMs >= limits.max_duration_ms) return "max_duration";
  if (limits.max_total_tokens !== undefined && tally.tokens >= limits.max_total_tokens)
    return "max_total_tokens";
  if (limits.max_cost_usd !== undefined && tally.costUsd >= limits.max_cost_usd) return "max_cost";
  return undefined;
}

/** Returns the cause of a final call. Expects the next ordinary call and the final call to cost the same. */
function finalCallCause(state: RunState, rules: CapRules): CapReason | undefined {
  const { paidCalls, last } = state;
  const { limits } = rules;
  if (state.finish) return "finished_by_parent";
  if (state.isLogFull) return "context_window";
  if (state.overBudget) return state.overBudget.cap;
  if (state.repetition.isOver) return "loop_detected";
  if (paidCalls + 1 >= limits.max_turns) return "max_turns";
  if (state.elapsedMs >= ordinaryTimeMs(limits)) return "max_duration";
  return last && capBeyond(state, rules, 2);
}

/**
 * Returns the cap on tokens or money that leaves no room for so many calls like the next one; `sparedTokens`: results that it
 * omits. Only tokens are spared: the prompt cache is lost with what is omitted.
 */
function capBeyond(
  state: RunState,
  rules: CapRules,
  calls: 1 | 2,
  sparedTokens = 0,
): "max_total_tokens" | "max_cost" | undefined {
  const { max_total_tokens: maxTokens, max_cost_usd: maxCostUsd } = rules.limits;
  if (maxTokens === undefined && maxCostUsd === undefined) return undefined;
  const { tokens, costUsd } = state.tally;
  const next = nextCall(state, rules);
  if (maxTokens !== undefined && tokens + calls * (next.tokens - sparedTokens) > maxTokens)
    return "max_total_tokens";
  return maxCostUsd !== undefined && costUsd + calls * next.costUsd > maxCostUsd ? "max_cost" : undefined;
}

/** Returns about what the next call will cost: what the last one did, and what the conversation has grown by since. */
function nextCall({ last, conversation }: RunState, { promptUsd = 0 }: CapRules) {
  const added = last ? conversation.addedTokens() : tokensIn(conversation.request().messages);
  const { usage = ZERO_USAGE, costUsd = 0 } = last ?? {};
  return {
    tokens: Math.max(0, totalTokens(usage) + added),
    costUsd: costUsd + Math.max(0, added) * promptUsd,
  };
}

/**
 * Returns the step that omits results because the next call does not fit into what a cap leaves: old ones, if it fits without
 * them. The last ones only if they more than double the last call, or are of an earlier run: also where a spent budget leaves
 * only a final call. Undefined otherwise: a report without what was found last is worth less than what it saves.
 */
export function fittingStep(state: RunState, rules: CapRules): ClearStep | undefined {
  const { overBudget, last, conversation } = state;
  const isBeyond = capBeyond(state, rules, 1) !== undefined;
  for (const keep of isBeyond ? [KEPT_TURNS, 1] : []) {
    const old = conversation.clearable(keep);
    if (old && !capBeyond(state, rules, 1, old.chars / BYTES_PER_TOKEN)) return omitting(state, old);
  }
  if (!isBeyond && !overBudget) return undefined;
  const hasGrown = !last || conversation.addedTokens() > totalTokens(last.usage);
  const all = hasGrown ? conversation.clearable(0) : undefined;
  return all && omitting(state, all);
}

/** Default of `clearAtTokens`: three quarters of the smallest context window of the models in the price table. */
const CLEAR_AT_TOKENS = 150_000;

/** Omits old results from requests, from user message `message` on. */
export interface ClearStep {
  do: "clear";
  message: number;
  cleared: ClearedEntry;
}

/** Buys a summary of the messages before message `compactBefore`, for the sake of message `message`. */
interface SummaryStep {
  do: "call_model";
  message: number;
  turn: number;
  compactBefore: number;
}

/** Number of last answers with tool calls that keep their results, if that makes enough room. */
const KEPT_TURNS = 3;
/** Minimum share of the previous call's tokens that omitting results must save, because it loses the prompt cache. */
const WORTH_SHARE = 0.2;
const CHARS_PER_TOKEN = 3;
/** Maximum number of summaries of a run: each costs a turn, and the model loses the messages it replaces. */
const MOST_COMPACTIONS = 5;

/** Returns true if the previous call came near the end of the context window. */
export function isFilling({ last }: RunState, { clearAtTokens = CLEAR_AT_TOKENS }: RunRules): boolean {
  return last !== undefined && totalTokens(last.usage) >= clearAtTokens;
}

/**
 * Returns the step that shortens a conversation that does not fit: it omits old results, then all results, then buys a
 * summary of earlier messages. Undefined if nothing helps.
 */
export function makeRoom(state: RunState, rules: RunRules): ClearStep | SummaryStep | undefined {
  return clearStep(state, true) ?? summaryStep(state, rules);
}

/**
 * Returns the step that omits the results of all turns but the last ones, or of all if room is `needed`; undefined if that
 * makes no room.
 */
export function clearStep(state: RunState, needed: boolean): ClearStep | undefined {
  const { conversation, last } = state;
  const old = conversation.clearable(KEPT_TURNS);
  const least = needed || !last ? 1 : WORTH_SHARE * CHARS_PER_TOKEN * totalTokens(last.usage);
  const found = old && old.chars >= least ? old : needed ? conversation.clearable(0) : undefined;
  return found && omitting(state, found);
}

function omitting(state: RunState, { through }: Clearable): ClearStep {
  return { do: "clear", message: state.userMessageNumber, cleared: { v: 1, through, ...goOn(state) } };
}

/** Returns the step that buys a summary; undefined if the caps leave no call for it and another one to go on with. */
function summaryStep(state: RunState, rules: RunRules): SummaryStep | undefined {
  const { conversation, userMessageNumber, paidCalls, unsummedAtMessage } = state;
  if (state.compactions >= MOST_COMPACTIONS || nextAllowedCall(state, rules).call !== "ordinary")
    return undefined;
  const compactBefore = conversation.compactable(unsummedAtMessage);
  return compactBefore === undefined
    ? undefined
    : { do: "call_model", message: userMessageNumber + 1, turn: paidCalls + 1, compactBefore };
}

/** Returns the mark of an entry that makes room after an answer that was cut off: the model is told to go on. */
export function goOn({ last }: RunState): { go_on?: true } {
  return last?.stopReason === "model_context_window_exceeded" ? { go_on: true } : {};
}
