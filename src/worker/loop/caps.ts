/**
 * Caps: whether the next model call may be an ordinary one, must be the final call (which asks for what has been
 * found), or cannot be made at all. Time, tokens and money trigger early, so that a final call still fits.
 */
import { totalTokens } from "../../shared/protocol/content.ts";
import type { Limits } from "../../shared/protocol/limits.ts";
import type { PartialReason } from "../../shared/protocol/reply.ts";
import type { RunState } from "./state.ts";

/** Time kept for the final call, at most half of the run's duration. */
export const FINAL_CALL_RESERVE_MS = 60_000;

/** The next model call that the caps allow. */
export type AllowedCall =
  | { call: "ordinary" }
  | { call: "final"; cause: PartialReason }
  | { call: "none"; cause: PartialReason };

/** What the caps allow as the next model call of the run. */
export function decideCaps(state: RunState, limits: Limits): AllowedCall {
  const over = exceeded(state, limits);
  if (over) return { call: "none", cause: over };
  // A run that has found nothing yet has nothing to report: agents of a budget that is spent buy nothing at all.
  if (state.overBudget && state.turns === 0) return { call: "none", cause: state.overBudget };
  const cause = finalCallCause(state, limits);
  return cause ? { call: "final", cause } : { call: "ordinary" };
}

/** Running time after which ordinary calls and tools are stopped, so that the final call still fits. */
export function ordinaryTimeMs(limits: Limits): number {
  return limits.max_duration_ms - Math.min(FINAL_CALL_RESERVE_MS, limits.max_duration_ms / 2);
}

function exceeded({ turns, elapsedMs, tally }: RunState, limits: Limits): PartialReason | undefined {
  if (turns >= limits.max_turns) return "max_turns";
  if (elapsedMs >= limits.max_duration_ms) return "max_duration";
  if (limits.max_total_tokens !== undefined && tally.tokens >= limits.max_total_tokens)
    return "max_total_tokens";
  if (limits.max_cost_usd !== undefined && tally.costUsd >= limits.max_cost_usd) return "max_cost";
  return undefined;
}

/** The next ordinary call is expected to cost what the previous one did, and the final call the same again. */
function finalCallCause(state: RunState, limits: Limits): PartialReason | undefined {
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
