/**
 * Limits of the work: the caps of a run, budgets over several, the effort of a model, and all durations. A caller may narrow
 * them and never widen them. Pure.
 */
import { z } from "zod";
import { undatedId } from "./usage.ts";

/** Upper bounds of all settings, for parents and operators. */
export const CEILING = {
  max_turns: 30,
  max_tokens: 64_000,
  max_duration_ms: 24 * 3_600_000,
  max_total_tokens: 1_000_000_000,
  max_cost_usd: 100_000,
} as const;

/** Smallest cap in USD: a budget counts in millionths. */
const LEAST_COST_USD = 0.000001;

const turns = z.int().min(1).max(CEILING.max_turns);
const tokens = z.int().min(1).max(CEILING.max_tokens);
const durationMs = z.int().min(1).max(CEILING.max_duration_ms);
const totalTokens = z.int().min(1).max(CEILING.max_total_tokens);
const costUsd = z.number().min(LEAST_COST_USD).max(CEILING.max_cost_usd);

/** A cap in USD as text, e.g. `2.50`. */
export const CostUsdText = z
  .string()
  .regex(/^\d{1,9}(\.\d{1,9})?$/)
  .transform(Number)
  .pipe(costUsd);
/** Required form of a {@link CostUsdText}. */
export const COST_USD_FORM = `a number from ${LEAST_COST_USD} to ${CEILING.max_cost_usd}`;

/**
 * The limits in force for every run of an agent. `max_turns`: paid model calls a run, the final call included;
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

/** Limits that a caller asks for: any subset. Zero, negative and NaN are invalid, never "unlimited". */
export const LimitsInput = Limits.partial().strict();
/** See {@link LimitsInput}. */
export type LimitsInput = z.infer<typeof LimitsInput>;

/** Thresholds; each sends one `alert` event per run. Absent = 80 % of the cap, or none without a cap. */
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

/** Result of {@link narrowLimits}. */
export type Narrowed =
  | { status: "narrowed"; limits: Limits }
  | { status: "refused"; field: keyof Limits; requested: number; allowed: number };

/** Narrows `base` by `requested`. A value above the base is refused, and the result names its field. */
export function narrowLimits(base: Limits, requested: LimitsInput): Narrowed {
  const limits: Limits = { ...base };
  for (const field of Object.keys(Limits.shape) as (keyof Limits)[]) {
    const value = requested[field];
    if (value === undefined) continue;
    const allowed = base[field] ?? CEILING[field];
    if (value > allowed) return { status: "refused", field, requested: value, allowed };
    limits[field] = value;
  }
  return { status: "narrowed", limits };
}

// Durations, in one table; `docs/protocol.md` explains each line.

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const DAY = 24 * HOUR;

/** Durations of the protocol, ms, and what is kept. Every process of one installation uses the same. */
export interface Timing {
  /** Lifetime of a worker's lease after the sending of its last renewal. */
  leaseMs: number;
  /** Interval at which a worker renews its lease. */
  renewMs: number;
  /** Time before the end of the lease at which a worker that could not renew stops its run. */
  leaseMarginMs: number;
  /** Time after which a sweeper checks a queued agent; it doubles up to `longestCheckMs` while the job still waits. */
  checkMs: number;
  longestCheckMs: number;
  /** Maximum age of an unanswered message: it ends its agent then, whatever happened. */
  maxAgeMs: number;
  /** Maximum time that a run waits for a worker with the tools it names; checked every `longestCheckMs` or oftener. */
  toolsMs: number;
  /** Lifetime of message ids and request keys; a task's key that its caller named lives until `keptAfterAckMs` after its ack. */
  requestTtlMs: number;
  /** Lifetime of unacked replies, and of the data kept of an ended agent. */
  replyTtlMs: number;
  /** Lifetime of the data kept of an ended agent after the ack. */
  keptAfterAckMs: number;
  /** Number of a parent's newest acked agents whose timelines stay as long as their records; a turn takes some 200 bytes. */
  keptTimelines: number;
  /** Lifetime of the registry of names after the parent's last spawn, message or end of an agent. */
  registryTtlMs: number;
  /** Lifetime of the parent's history after its last run began or ended, and maximum lifetime of an event. */
  eventTtlMs: number;
  /** Lifetime of the usage of a parent's runs, kept by days; whole days. */
  usageTtlMs: number;
  /** First closing time of a provider limiter if the provider names none; it doubles up to `longestLimiterBackoffMs`. */
  limiterBackoffMs: number;
  longestLimiterBackoffMs: number;
  /** Longest time until a run that waits at a closed limiter asks again; its position in the line is added. */
  limiterAskMs: number;
  /** Time after its opening at which a limiter without waiting calls is healthy again. */
  limiterQuietMs: number;
  /** First closing time of a limiter whose credential was refused; it doubles up to `longestBreakerMs`. */
  breakerMs: number;
  longestBreakerMs: number;
}

/** Default durations: an operator may set `keptAfterAckMs` and `keptTimelines`, and tests set others. */
export const TIMING: Timing = {
  leaseMs: 10 * SECOND,
  renewMs: 3 * SECOND,
  leaseMarginMs: 2 * SECOND,
  checkMs: 10 * SECOND,
  longestCheckMs: 60 * SECOND,
  maxAgeMs: DAY,
  toolsMs: 600 * SECOND,
  requestTtlMs: DAY,
  replyTtlMs: 7 * DAY,
  keptAfterAckMs: DAY,
  keptTimelines: 50,
  registryTtlMs: 30 * DAY,
  eventTtlMs: DAY,
  usageTtlMs: 90 * DAY,
  limiterBackoffMs: SECOND / 2,
  longestLimiterBackoffMs: 60 * SECOND,
  limiterAskMs: 60 * SECOND,
  limiterQuietMs: 60 * SECOND,
  breakerMs: 30 * SECOND,
  longestBreakerMs: 600 * SECOND,
};

/** Largest number of timelines that a parent may keep. */
export const MOST_KEPT_TIMELINES = 100_000;

/** Required form of a timing, as the end of "must be …". */
export const TIMING_FORM = "an object with every field of `Timing`, durations in ms";

/** Returns true if `value` has every field. */
export function isTiming(value: unknown): value is Timing {
  if (typeof value !== "object" || value === null) return false;
  return Object.keys(TIMING).every((name) => Number.isFinite(Reflect.get(value, name)));
}

/** Idle time after which an idle agent ends (`idle`), unless its profile says otherwise. */
export const IDLE_MS = 600 * SECOND;
/** Time that a sub-agent's question waits for its answer, unless its parent set another time. */
export const ANSWER_MS = HOUR;
/** Lifetime of a call's reservation in a budget unless it is settled, and of the mark of a charge: twice the longest run. */
export const RESERVATION_MS = 2 * CEILING.max_duration_ms;
/** A run that its provider limiter called, or that is due to ask it, and does not come within this time has ended, or finds no free worker. */
export const LIMITER_LATE_MS = 2_000;
/** Time for which the job of a taken wake stays visible. */
export const WAKE_DONE_KEPT_MS = HOUR;
/** Time for which the job of a wake stays visible if its run failed. */
export const WAKE_FAILED_KEPT_MS = DAY;
/** Maximum number of live agents of a parent. */
export const MAX_LIVE_AGENTS = 10;

/** Maximum number of concurrent runs in one worker process. */
export const MAX_CONCURRENCY = 5_000;

const MAX_WINDOW_MS = 30 * DAY;

const caps = {
  max_total_tokens: totalTokens.optional(),
  max_cost_usd: costUsd.optional(),
};
const NO_CAP = "name max_total_tokens, max_cost_usd or both";
const budget = z.strictObject(caps).refine(hasCap, NO_CAP);
const rolling = z
  .strictObject({ ...caps, window_ms: z.int().min(1_000).max(MAX_WINDOW_MS) })
  .refine(hasCap, NO_CAP);

function hasCap(budget: {
  max_total_tokens?: number | undefined;
  max_cost_usd?: number | undefined;
}): boolean {
  return budget.max_total_tokens !== undefined || budget.max_cost_usd !== undefined;
}

/**
 * Budgets by scope. `agent`: one agent, over all its runs; `parent`: all agents of a parent, while one of their calls is
 * younger than 30 days; `tenant`: all agents of all its parents, in any `window_ms` (1 s to 30 days).
 */
export const Budgets = z.strictObject({
  agent: budget.optional(),
  parent: budget.optional(),
  tenant: rolling.optional(),
});
/** See {@link Budgets}. */
export type Budgets = z.infer<typeof Budgets>;

/** Returns true if a cap in USD binds an agent: the cap takes effect only if the prices of its models are known. */
export function isCappedInUsd(limits: LimitsInput, budgets: Budgets = {}): boolean {
  return [limits, ...Object.values(budgets)].some((caps) => caps?.max_cost_usd !== undefined);
}

/** Merges two budgets: each cap is the lower one. The operator's tenant budget holds; if there is none, the requested one. */
export function narrowedBudgets(operator: Budgets = {}, requested: Budgets = {}): Budgets {
  const least = (a?: number, b?: number) => (a === undefined ? b : Math.min(a, b ?? a));
  const both = (a: Budgets["agent"], b: Budgets["agent"]) => {
    const max_total_tokens = least(a?.max_total_tokens, b?.max_total_tokens);
    const max_cost_usd = least(a?.max_cost_usd, b?.max_cost_usd);
    return {
      ...(max_total_tokens !== undefined && { max_total_tokens }),
      ...(max_cost_usd !== undefined && { max_cost_usd }),
    };
  };
  const agent = both(operator.agent, requested.agent);
  const parent = both(operator.parent, requested.parent);
  const tenant = operator.tenant ?? requested.tenant;
  return {
    ...(Object.keys(agent).length > 0 && { agent }),
    ...(Object.keys(parent).length > 0 && { parent }),
    ...(tenant && { tenant }),
  };
}

/** Effort that a model makes, from least to most. */
export const Effort = z.enum(["low", "medium", "high", "xhigh", "max"]);
/** See {@link Effort}. */
export type Effort = z.infer<typeof Effort>;

/** Tokens that the model is told it has for a run, to pace itself; the provider accepts no fewer. Advice, not a cap. */
export const TaskBudget = z.int().min(20_000).max(CEILING.max_total_tokens);

/** Advice to a model about how much to do. */
export interface Pace {
  effort?: Effort | undefined;
  task_budget?: number | undefined;
}

const UP_TO_HIGH: readonly Effort[] = ["low", "medium", "high"];
const ALL: readonly Effort[] = Effort.options;

/**
 * Models that do not take every value, as of November 2026. Other models take them all, or only their provider knows: the
 * values are sent unchanged.
 */
const LIMITED: Readonly<Record<string, { efforts: readonly Effort[]; task_budget: boolean }>> = {
  "claude-sonnet-5": { efforts: ALL, task_budget: false },
  "claude-opus-4-6": { efforts: [...UP_TO_HIGH, "max"], task_budget: false },
  "claude-sonnet-4-6": { efforts: [...UP_TO_HIGH, "max"], task_budget: false },
  "claude-opus-4-5": { efforts: UP_TO_HIGH, task_budget: false },
  "claude-sonnet-4-5": { efforts: [], task_budget: false },
  "claude-haiku-4-5": { efforts: [], task_budget: false },
};

/** Returns the part of a pace that `model` takes; an effort it does not know becomes the next lower one. */
export function paceFor(model: string, { effort, task_budget }: Pace): Pace {
  const id = undatedId(model);
  const limited = Object.hasOwn(LIMITED, id) ? LIMITED[id] : undefined;
  const known = limited?.efforts ?? ALL;
  const taken = effort && known.findLast((each) => ALL.indexOf(each) <= ALL.indexOf(effort));
  const isBudgeted = task_budget !== undefined && limited?.task_budget !== false;
  return { ...(taken && { effort: taken }), ...(isBudgeted && { task_budget }) };
}

/** Returns the lower of two efforts; an absent one is no bound. */
export function leastEffort(a: Effort | undefined, b: Effort | undefined): Effort | undefined {
  if (!a || !b) return a ?? b;
  return ALL.indexOf(a) <= ALL.indexOf(b) ? a : b;
}
