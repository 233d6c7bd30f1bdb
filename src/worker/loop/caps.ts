/**
 * Caps: whether the next model call may be an ordinary one, must be the last one (the hand-back call, which asks for
 * what has been found), or cannot be made at all. Time, tokens and money trigger early, so that a hand-back still fits.
 */
import { totalTokens } from "../../shared/protocol/content.ts";
import type { Limits } from "../../shared/protocol/limits.ts";
import type { PartialReason } from "../../shared/protocol/reply.ts";
import type { Log } from "./log.ts";
import { REPETITION_LIMIT, repetitions } from "./repetition.ts";
import type { RunView } from "./run-view.ts";
import { type Rules, type Spent, spentBy } from "./tally.ts";

/** Time kept for the hand-back call, at most half of the run's duration. */
export const HAND_BACK_RESERVE_MS = 60_000;

/** What the caps say about the next model call. */
export type CapVerdict =
  | { call: "ordinary" }
  | { call: "hand_back"; cause: PartialReason }
  | { call: "none"; cause: PartialReason };

/** The verdict on the next model call of the run. */
export function judgeCaps(log: Log, view: RunView, rules: Rules): CapVerdict {
  const spent = spentBy(log, view);
  const over = exceeded(log, view, rules.limits, spent);
  if (over) return { call: "none", cause: over };
  const cause = lastCallCause(log, view, rules.limits, spent);
  return cause ? { call: "hand_back", cause } : { call: "ordinary" };
}

/** Running time after which ordinary calls and tools are stopped, so that the hand-back call still fits. */
export function ordinaryTimeMs(limits: Limits): number {
  return limits.max_duration_ms - Math.min(HAND_BACK_RESERVE_MS, limits.max_duration_ms / 2);
}

function exceeded(log: Log, view: RunView, limits: Limits, spent: Spent): PartialReason | undefined {
  if (view.turns.length >= limits.max_turns) return "max_turns";
  if (log.elapsedMs >= limits.max_duration_ms) return "max_duration";
  if (limits.max_total_tokens !== undefined && spent.tokens >= limits.max_total_tokens)
    return "max_total_tokens";
  if (limits.max_cost_usd !== undefined && spent.costUsd >= limits.max_cost_usd) return "max_cost";
  return undefined;
}

/** The next ordinary call is expected to cost what the last one did, and the hand-back call the same again. */
function lastCallCause(log: Log, view: RunView, limits: Limits, spent: Spent): PartialReason | undefined {
  const last = view.turns.at(-1)?.entry;
  const tokensOfTwo = last ? 2 * totalTokens(last.usage) : 0;
  const costOfTwo = last ? 2 * last.cost_usd : 0;
  if (log.finish) return "finished_by_parent";
  if ([...repetitions(view.turns).values()].some((count) => count >= REPETITION_LIMIT))
    return "loop_detected";
  if (view.turns.length + 1 >= limits.max_turns) return "max_turns";
  if (log.elapsedMs >= ordinaryTimeMs(limits)) return "max_duration";
  if (limits.max_total_tokens !== undefined && spent.tokens + tokensOfTwo > limits.max_total_tokens) {
    return "max_total_tokens";
  }
  if (limits.max_cost_usd !== undefined && spent.costUsd + costOfTwo > limits.max_cost_usd) return "max_cost";
  return undefined;
}
