/** The caps of a run: defaults, ceilings, and the rule that a caller may narrow but never widen. */
import { z } from "zod";

/** Nothing may be set above these, by parent or operator. */
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

/** How long things last. One table; `docs/protocol.md` explains each line. */

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const DAY = 24 * HOUR;

/** Durations of the protocol, ms. Every process of one installation uses the same. */
export interface Timing {
  /** A worker's claim lives this long after the sending of its last renewal. */
  leaseMs: number;
  /** A worker renews this often. */
  renewMs: number;
  /** A worker that could not renew stops its run this long before the lease ends. */
  leaseMarginMs: number;
  /** A queued agent is looked at after this long; doubling up to `longestLookMs` while its job still waits. */
  lookMs: number;
  longestLookMs: number;
  /** An unanswered message ends its agent after this long, whatever happened. */
  maxAgeMs: number;
  /** A run waits so long for a worker that has the tools it names; checked every `longestLookMs` or oftener. */
  toolsMs: number;
  /** Request keys and message ids are remembered this long. */
  requestTtlMs: number;
  /** Unacked replies, and what is kept of an ended agent, live this long. */
  replyTtlMs: number;
  /** After the ack, what is kept of an ended agent lives this long. */
  keptAfterAckMs: number;
  /** The registry of names lives this long after the parent's last spawn, message or end of an agent. */
  registryTtlMs: number;
  /** The parent's history is kept this long after its last run began or ended, and an event at most as long. */
  eventTtlMs: number;
  /** What a parent's runs used is kept this long, by days; whole days. */
  usageTtlMs: number;
  /** A provider gate closes this long at first when the provider does not say how long; doubling up to `longestGateBackoffMs`. */
  gateBackoffMs: number;
  longestGateBackoffMs: number;
  /** A run that waits at a closed gate asks again after this long at the latest, plus its place in the line. */
  gateAskMs: number;
  /** A gate at which no call waits is healthy again this long after it opened. */
  gateQuietMs: number;
  /** A refused credential closes its gate this long at first; doubling up to `longestBreakerMs`. */
  breakerMs: number;
  longestBreakerMs: number;
}

/** The durations in use unless a test says otherwise. */
export const TIMING: Timing = {
  leaseMs: 10 * SECOND,
  renewMs: 3 * SECOND,
  leaseMarginMs: 2 * SECOND,
  lookMs: 10 * SECOND,
  longestLookMs: 60 * SECOND,
  maxAgeMs: DAY,
  toolsMs: 600 * SECOND,
  requestTtlMs: DAY,
  replyTtlMs: 7 * DAY,
  keptAfterAckMs: DAY,
  registryTtlMs: 30 * DAY,
  eventTtlMs: DAY,
  usageTtlMs: 90 * DAY,
  gateBackoffMs: SECOND / 2,
  longestGateBackoffMs: 60 * SECOND,
  gateAskMs: 60 * SECOND,
  gateQuietMs: 60 * SECOND,
  breakerMs: 30 * SECOND,
  longestBreakerMs: 600 * SECOND,
};

/** Idle time after which an idle agent is destroyed, unless its profile says otherwise. */
export const IDLE_MS = 600 * SECOND;
/** A sub-agent's question waits this long for its answer, unless its parent set another time. */
export const ANSWER_MS = HOUR;
/** The job of a wake that was taken stays visible this long. */
export const WAKE_DONE_KEPT_MS = HOUR;
/** The job of a wake whose run failed stays visible this long. */
export const WAKE_FAILED_KEPT_MS = DAY;
/** Most live agents a parent may have. */
export const MAX_LIVE_AGENTS = 10;
