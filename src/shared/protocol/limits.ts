/** The caps of a run: defaults, ceilings, and the rule that a caller may narrow but never widen. */
import { z } from "zod";

/** Nothing may be set above these, whoever sets it. */
export const CEILING = {
  max_turns: 30,
  max_tokens: 64_000,
  max_duration_ms: 24 * 3_600_000,
  max_total_tokens: 1_000_000_000,
  max_cost_usd: 100_000,
} as const;

const turns = z.int().min(1).max(CEILING.max_turns);
const tokens = z.int().min(1).max(CEILING.max_tokens);
const durationMs = z.int().min(1).max(CEILING.max_duration_ms);
const totalTokens = z.int().min(1).max(CEILING.max_total_tokens);
const costUsd = z.number().positive().max(CEILING.max_cost_usd);

/**
 * The limits in force for every run of an agent. `max_turns`: model calls a run, the hand-back call included;
 * `max_tokens`: output tokens a call; `max_duration_ms`: running time (waiting and queueing do not count);
 * `max_total_tokens`, `max_cost_usd`: sums over a run, absent = not capped.
 */
export const Limits = z.object({
  max_turns: turns,
  max_tokens: tokens,
  max_duration_ms: durationMs,
  max_total_tokens: totalTokens.optional(),
  max_cost_usd: costUsd.optional(),
});
/** See {@link Limits}. */
export type Limits = z.infer<typeof Limits>;

/** What a caller may ask for: any subset of the limits. Zero, negative and NaN are invalid, never "unlimited". */
export const LimitsWish = Limits.partial().strict();
/** See {@link LimitsWish}. */
export type LimitsWish = z.infer<typeof LimitsWish>;

/** Thresholds that send one `alert` event each a run; absent = 80 % of the cap, or none without a cap. */
export const AlertThresholds = z
  .object({ turns: turns, tokens: totalTokens, tool_calls: z.int().min(1), cost_usd: costUsd })
  .partial()
  .strict();
/** See {@link AlertThresholds}. */
export type AlertThresholds = z.infer<typeof AlertThresholds>;

/** Limits of a managed sub-agent and of the `agent` tool: 20 turns, 8,000 output tokens a call, 30 minutes of running. */
export const SPAWN_LIMITS: Limits = { max_turns: 20, max_tokens: 8_000, max_duration_ms: 30 * 60_000 };

/** Limits of `task`: as {@link SPAWN_LIMITS}, with 30 turns. */
export const TASK_LIMITS: Limits = { ...SPAWN_LIMITS, max_turns: 30 };

/** The answer of {@link narrowLimits}. */
export type Narrowed =
  | { status: "narrowed"; limits: Limits }
  | { status: "refused"; field: keyof Limits; wished: number; allowed: number };

/** `base` narrowed by `wish`; a wish above the base is refused and named. */
export function narrowLimits(base: Limits, wish: LimitsWish): Narrowed {
  const limits: Limits = { ...base };
  for (const field of Object.keys(Limits.shape) as (keyof Limits)[]) {
    const wished = wish[field];
    if (wished === undefined) continue;
    const allowed = base[field] ?? CEILING[field];
    if (wished > allowed) return { status: "refused", field, wished, allowed };
    limits[field] = wished;
  }
  return { status: "narrowed", limits };
}
