/**
 * What bounds the work: the caps of a run, budgets over several, how hard a model is to try, and how long things last. A caller
 * may narrow and never widen. Pure.
 */
import { z } from "zod";
import { undatedId } from "./usage.ts";

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
 * The limits in force for every run of an agent. `max_turns`: model calls a run, the final call included;
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
export const LimitsInput = Limits.partial().strict();
/** See {@link LimitsInput}. */
export type LimitsInput = z.infer<typeof LimitsInput>;

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
export function narrowLimits(base: Limits, wish: LimitsInput): Narrowed {
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

// How long things last. One table; `docs/protocol.md` explains each line.

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
  /** A provider limiter closes this long at first when the provider does not say how long; doubling up to `longestLimiterBackoffMs`. */
  limiterBackoffMs: number;
  longestLimiterBackoffMs: number;
  /** A run that waits at a closed limiter asks again after this long at the latest, plus its place in the line. */
  limiterAskMs: number;
  /** A limiter at which no call waits is healthy again this long after it opened. */
  limiterQuietMs: number;
  /** A refused credential closes its limiter this long at first; doubling up to `longestBreakerMs`. */
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
  limiterBackoffMs: SECOND / 2,
  longestLimiterBackoffMs: 60 * SECOND,
  limiterAskMs: 60 * SECOND,
  limiterQuietMs: 60 * SECOND,
  breakerMs: 30 * SECOND,
  longestBreakerMs: 600 * SECOND,
};

/** What a timing must be, as the end of "must be …". */
export const TIMING_FORM = "all durations of the protocol, ms, of which `Timing` names each";

/** Whether `value` has every duration. */
export function isTiming(value: unknown): value is Timing {
  if (typeof value !== "object" || value === null) return false;
  return Object.keys(TIMING).every((name) => Number.isFinite(Reflect.get(value, name)));
}

/** Idle time after which an idle agent is destroyed, unless its profile says otherwise. */
export const IDLE_MS = 600 * SECOND;
/** A sub-agent's question waits this long for its answer, unless its parent set another time. */
export const ANSWER_MS = HOUR;
/** A call's reservation in a budget lives this long unless the call is settled: twice as long as the longest run. */
export const RESERVATION_MS = 2 * CEILING.max_duration_ms;
/** The job of a wake that was taken stays visible this long. */
export const WAKE_DONE_KEPT_MS = HOUR;
/** The job of a wake whose run failed stays visible this long. */
export const WAKE_FAILED_KEPT_MS = DAY;
/** Most live agents a parent may have. */
export const MAX_LIVE_AGENTS = 10;

/** Runs at a time in one worker process, at most. */
export const MAX_CONCURRENCY = 5_000;

const MAX_WINDOW_MS = 30 * DAY;

const caps = {
  max_total_tokens: z.int().min(1).max(CEILING.max_total_tokens).optional(),
  max_cost_usd: z.number().positive().max(CEILING.max_cost_usd).optional(),
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
 * Budgets by whom they bind: `agent`: one agent, over all its runs; `parent`: all agents of a parent, as long as a call of
 * theirs is younger than 30 days; `tenant`: all agents of all its parents, in any `window_ms` (1 s to 30 days).
 */
export const Budgets = z.strictObject({
  agent: budget.optional(),
  parent: budget.optional(),
  tenant: rolling.optional(),
});
/** See {@link Budgets}. */
export type Budgets = z.infer<typeof Budgets>;

/** Whether a cap in USD binds an agent: it takes effect only where the prices of its models are known. */
export function isCappedInUsd(limits: LimitsInput, budgets: Budgets = {}): boolean {
  return [limits, ...Object.values(budgets)].some((caps) => caps?.max_cost_usd !== undefined);
}

/** The tighter of two: each cap the lower one. The tenant's budget is the operator's; where it has none, the other's holds. */
export function narrowedBudgets(operator: Budgets = {}, wished: Budgets = {}): Budgets {
  const least = (a?: number, b?: number) => (a === undefined ? b : Math.min(a, b ?? a));
  const both = (a: Budgets["agent"], b: Budgets["agent"]) => {
    const max_total_tokens = least(a?.max_total_tokens, b?.max_total_tokens);
    const max_cost_usd = least(a?.max_cost_usd, b?.max_cost_usd);
    return {
      ...(max_total_tokens !== undefined && { max_total_tokens }),
      ...(max_cost_usd !== undefined && { max_cost_usd }),
    };
  };
  const agent = both(operator.agent, wished.agent);
  const parent = both(operator.parent, wished.parent);
  const tenant = operator.tenant ?? wished.tenant;
  return {
    ...(Object.keys(agent).length > 0 && { agent }),
    ...(Object.keys(parent).length > 0 && { parent }),
    ...(tenant && { tenant }),
  };
}

/** How thorough a model is to be, from least to most. */
export const Effort = z.enum(["low", "medium", "high", "xhigh", "max"]);
/** See {@link Effort}. */
export type Effort = z.infer<typeof Effort>;

/** Tokens that the model is told it has for a run, to pace itself by; the provider takes no fewer. Advice, not a cap. */
export const TaskBudget = z.int().min(20_000).max(CEILING.max_total_tokens);

/** What a model is told about how much to do. */
export interface Pace {
  effort?: Effort | undefined;
  task_budget?: number | undefined;
}

const UP_TO_HIGH: readonly Effort[] = ["low", "medium", "high"];
const ALL: readonly Effort[] = Effort.options;

/**
 * The models that do not take all of it, as of November 2026. Others do, or are of other providers, which alone know: what they
 * are asked for is sent.
 */
const LIMITED: Readonly<Record<string, { efforts: readonly Effort[]; task_budget: boolean }>> = {
  "claude-sonnet-5": { efforts: ALL, task_budget: false },
  "claude-opus-4-6": { efforts: [...UP_TO_HIGH, "max"], task_budget: false },
  "claude-sonnet-4-6": { efforts: [...UP_TO_HIGH, "max"], task_budget: false },
  "claude-opus-4-5": { efforts: UP_TO_HIGH, task_budget: false },
  "claude-sonnet-4-5": { efforts: [], task_budget: false },
  "claude-haiku-4-5": { efforts: [], task_budget: false },
};

/** What `model` takes of a pace: the next lower effort that it knows, where it does not know this one. */
export function paceFor(model: string, { effort, task_budget }: Pace): Pace {
  const id = undatedId(model);
  const limited = Object.hasOwn(LIMITED, id) ? LIMITED[id] : undefined;
  const known = limited?.efforts ?? ALL;
  const taken = effort && known.findLast((each) => ALL.indexOf(each) <= ALL.indexOf(effort));
  const isBudgeted = task_budget !== undefined && limited?.task_budget !== false;
  return { ...(taken && { effort: taken }), ...(isBudgeted && { task_budget }) };
}

/** The lesser of two efforts; one that is absent is no bound. */
export function leastEffort(a: Effort | undefined, b: Effort | undefined): Effort | undefined {
  if (!a || !b) return a ?? b;
  return ALL.indexOf(a) <= ALL.indexOf(b) ? a : b;
}
