/**
 * Room in the context window: old tool results are left out of requests, and where that is not enough, what was said
 * before is summed up. How large the window is the provider knows: a summary is bought only after its refusal or a cut-off
 * answer.
 */
import { totalTokens } from "../../shared/protocol/content.ts";
import type { ClearedEntry } from "../../shared/protocol/log.ts";
import { decideCaps } from "./caps.ts";
import type { RunRules } from "./reply-body.ts";
import type { RunState } from "./state.ts";

/** Three quarters of the smallest context window of the models in the price table. */
const CLEAR_AT_TOKENS = 150_000;

/** Old results leave the requests from user message `message` on. */
export interface ClearStep {
  do: "clear";
  message: number;
  cleared: ClearedEntry;
}

/** Buys a summary of what was said before message `sumsUp`, for the sake of message `message`. */
interface SummaryStep {
  do: "call_model";
  message: number;
  turn: number;
  sumsUp: number;
}

/** So many of the last answers with tool calls keep their results, where that makes room enough. */
const KEPT_TURNS = 3;
/** Leaving results out loses the prompt cache: it must spare at least this share of what the previous call took. */
const WORTH_SHARE = 0.2;
const CHARS_PER_TOKEN = 3;
/** Most summaries of a run: each costs a turn, and what it stands for is lost to the model. */
const MOST_COMPACTIONS = 5;

/** Whether the previous call has come near to the end of the context window. */
export function isFilling(
  { last, clearedAtMessage, userMessage }: RunState,
  { clearAtTokens = CLEAR_AT_TOKENS }: RunRules,
): boolean {
  return last !== undefined && clearedAtMessage !== userMessage && totalTokens(last.usage) >= clearAtTokens;
}

/**
 * What makes a conversation shorter that does not fit: old results are left out, then all of them, then what was said before is
 * summed up. Undefined where nothing does.
 */
export function makeRoom(state: RunState, rules: RunRules): ClearStep | SummaryStep | undefined {
  return leaveOut(state, true) ?? sumUp(state, rules);
}

/** Leaves out the results of all turns but the last ones, or of all where room is `needed`. Undefined where that makes none. */
export function leaveOut(state: RunState, needed: boolean): ClearStep | undefined {
  const { conversation, userMessage: message, last } = state;
  const old = conversation.clearable(KEPT_TURNS);
  const least = needed || !last ? 1 : WORTH_SHARE * CHARS_PER_TOKEN * totalTokens(last.usage);
  const found = old && old.chars >= least ? old : needed ? conversation.clearable(0) : undefined;
  if (!found) return undefined;
  return { do: "clear", message, cleared: { v: 1, through: found.through, ...goOn(state) } };
}

/** Buys a summary, where the caps leave a call for it and another one to go on with. */
function sumUp(state: RunState, { limits }: RunRules): SummaryStep | undefined {
  const { conversation, userMessage, turns, unsummedAtMessage } = state;
  if (state.compactions >= MOST_COMPACTIONS || decideCaps(state, limits).call !== "ordinary")
    return undefined;
  const sumsUp = conversation.compactable(unsummedAtMessage);
  return sumsUp === undefined
    ? undefined
    : { do: "call_model", message: userMessage + 1, turn: turns + 1, sumsUp };
}

/** A mark of an entry that makes room: after an answer that was cut off the model is told to go on. */
export function goOn({ last }: RunState): { go_on?: true } {
  return last?.stopReason === "model_context_window_exceeded" ? { go_on: true } : {};
}
