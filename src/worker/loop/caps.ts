/**
 * Caps: whether the next model call may be an ordinary one, must be the last one (the hand-back call, which asks for
 * what has been found), or cannot be made at all. Time, tokens and money trigger early, so that a hand-back still fits.
 */
import { totalTokens } from "../../shared/protocol/content.ts";
import type { Limits } from "../../shared/protocol/limits.ts";
import type { PartialReason } from "../../shared/protocol/reply.ts";
import type { RunState } from "./state.ts";

/** Time kept for the hand-back call, at most half of the run's duration. */
export const HAND_BACK_RESERVE_MS = 60_000;

/** What the caps say about the next model call. */
export type CapVerdict =
  | { call: "ordinary" }
  | { call: "hand_back"; cause: PartialReason }
  | { call: "none"; cause: PartialReason };

/** The verdict on the next model call of the run. */
export function judgeCaps(state: RunState, limits: Limits): CapVerdict {
  const over = exceeded(state, limits);
  if (over) return { call: "none", cause: over };
  // A run that has found nothing yet has nothing to hand back: agents of a budget that is spent buy nothing at all.
  if (state.overBudget && state.turns === 0) return { call: "none", cause: state.overBudget };
  const cause = lastCallCause(state, limits);
  return cause ? { call: "hand_back", cause } : { call: "ordinary" };
}

/** Running time after which ordinary calls and tools are stopped, so that the hand-back call still fits. */
export function ordinaryTimeMs(limits: Limits): number {
  return limits.max_duration_ms - Math.min(HAND_BACK_RESERVE_MS, limits.max_duration_ms / 2);
}

function exceeded({ turns, elapsedMs, tally }: RunState, limits: Limits): PartialReason | undefined {
  if (turns >= limits.max_turns) return "max_turns";
  if (elapsedMs >= limits.max_duration_ms) return "max_duration";
  if (limits.max_total_tokens !== undefined && tally.tokens >= limits.max_total_tokens)
    return "max_total_tokens";
  if (limits.max_cost_usd !== undefined && tally.costUsd >= limits.max_cost_usd) return "max_cost";
  return undefined;
}

/** The next ordinary call is expected to cost what the last one did, and the hand-back call the same again. */
function lastCallCause(state: RunState, limits: Limits): PartialReason | undefined {
  const { turns, last, tally } = state;
  const tokensOfTwo = last ? 2 * totalTokens(last.usage) : 0;
  const costOfTwo = last ? 2 * last.costUsd : 0;
  if (state.finish) return "finished_by_parent";
  if (state.overBudget) return state.overBudget;
  if (state.repetition.isOver) return "loop_detected";
  if (turns + 1 >= limits.max_turns) return "max_turns";
  if (state.elapsedMs >= ordinaryTimeMs(limits)) return "max_duration";
  if (limits.max_total_tokens !== undefined && tally.tokens + tokensOfTwo > limits.max_total_tokens) {
    return "max_total_tokens";
  }
  if (limits.max_cost_usd !== undefined && tally.costUsd + costOfTwo > limits.max_cost_usd) return "max_cost";
  return undefined;
}
