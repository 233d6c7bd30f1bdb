/** Names and prices of models, and the usage of a parent's runs by days. Pure. */
import { z } from "zod";
import { promptTokens, Usage } from "./content.ts";

/** Length of a day, ms; days begin at midnight UTC and count from 1970-01-01. */
export const DAY_MS = 86_400_000;
const MICRO = 1_000_000;

/**
 * Sums over runs that have ended, in whatever way. `replies`: number of runs; `tokens`: sum of the four fields of `usage`;
 * `cost_usd`: 0 for runs whose model has no known price.
 */
export const UsageTotals = z.object({
  replies: z.int().min(0),
  turns: z.int().min(0),
  tokens: z.int().min(0),
  usage: Usage,
  cost_usd: z.number().min(0),
});
/** See {@link UsageTotals}. */
export type UsageTotals = z.infer<typeof UsageTotals>;

const Counter = z.coerce.number().int().min(0);

/** Sums a stored record from the day of `sinceMs` (epoch ms) on. Throws if the record is invalid. */
export function sumUsage(record: Readonly<Record<string, string>>, sinceMs: number): UsageTotals {
  const firstDay = Math.floor(sinceMs / DAY_MS);
  const sums: Record<string, number> = {};
  for (const [field, value] of Object.entries(record)) {
    const [day = "", counter = ""] = field.split("/");
    if (Number(day) >= firstDay) sums[counter] = (sums[counter] ?? 0) + Counter.parse(value);
  }
  const of = (counter: string) => sums[counter] ?? 0;
  const usage: Usage = {
    input_tokens: of("input_tokens"),
    output_tokens: of("output_tokens"),
    cache_read_input_tokens: of("cache_read_input_tokens"),
    cache_creation_input_tokens: of("cache_creation_input_tokens"),
  };
  return {
    replies: of("runs"),
    turns: of("turns"),
    tokens: Object.values(usage).reduce((sum, n) => sum + n, 0),
    usage,
    cost_usd: of("cost_micro_usd") / MICRO,
  };
}

// Cost of a model call: a dated price table, the operator's overrides, and the arithmetic. Pure.

const rate = z.number().nonnegative();

/** Prices in USD per million tokens. Cache writes are the five-minute kind, the only one requested. */
const Rates = z.object({ input: rate, output: rate, cache_read: rate, cache_write: rate });
/** Prices in USD per million tokens. */
export type Rates = z.infer<typeof Rates>;

/**
 * The price of one model. A call whose prompt (input, cache reads, cache writes) is longer than
 * `long_prompt.over_tokens` pays the `long_prompt` rates for every one of its tokens, output included.
 */
export const Price = Rates.extend({
  /** Day on which the rates were read from a price list. The built-in table always has it. */
  as_of: z.iso.date().optional(),
  long_prompt: Rates.extend({ over_tokens: z.int().positive() }).optional(),
});
/** The price of one model. */
export type Price = z.infer<typeof Price>;

/** The operator's own prices by exact model id, for other providers, discounts, or models the table lacks. */
export const PriceOverrides = z.record(z.string().min(1), Price);
/** The operator's own prices by exact model id. */
export type PriceOverrides = z.infer<typeof PriceOverrides>;

const AS_OF = "2026-11-01";

function price(input: number, output: number, cacheRead: number, cacheWrite: number): Price {
  return { input, output, cache_read: cacheRead, cache_write: cacheWrite, as_of: AS_OF };
}

/**
 * List prices by model id, from https://platform.claude.com/docs/en/about-claude/pricing. A model that is not listed has no
 * known price, also if a similar one has. The offline model costs nothing.
 */
export const PRICES: Readonly<Record<string, Price>> = Object.freeze({
  "claude-fable-5-1": price(10, 50, 0.25, 12.5),
  "claude-fable-5": price(10, 50, 1, 12.5),
  "claude-mythos-5-1": price(10, 50, 0.25, 12.5),
  "claude-mythos-5": price(10, 50, 1, 12.5),
  "claude-opus-5-5": price(4, 20, 0.2, 5),
  "claude-opus-5": price(5, 25, 0.5, 6.25),
  "claude-opus-4-8": price(5, 25, 0.5, 6.25),
  "claude-opus-4-7": price(5, 25, 0.5, 6.25),
  "claude-opus-4-6": price(5, 25, 0.5, 6.25),
  "claude-opus-4-5": price(5, 25, 0.5, 6.25),
  "claude-sonnet-5-5": price(2, 10, 0.1, 2.5),
  "claude-sonnet-5": price(2, 10, 0.2, 2.5),
  "claude-sonnet-4-6": price(3, 15, 0.3, 3.75),
  "claude-sonnet-4-5": price(3, 15, 0.3, 3.75),
  "claude-haiku-5-5": {
    ...price(0.1, 0.5, 0.01, 0.125),
    long_prompt: { over_tokens: 100_000, input: 0.5, output: 2.5, cache_read: 0.05, cache_write: 0.625 },
  },
  "claude-haiku-4-5": price(1, 5, 0.1, 1.25),
  "offline-1": price(0, 0, 0, 0),
});

/** Returns the alias of a dated snapshot (`claude-opus-4-5` of `claude-opus-4-5-20251101`); any other id unchanged. */
export function undatedId(model: string): string {
  return model.replace(/-\d{8}$/, "");
}

/**
 * Returns the price of `model`; undefined if it is unknown (then a cost cap cannot be kept and is refused). `overrides` win
 * over the table; a dated snapshot (`claude-opus-4-5-20251101`) costs what its alias costs. Only exact ids and snapshots
 * match: a newer minor version is another model.
 */
export function priceOf(model: string, overrides: PriceOverrides = {}): Price | undefined {
  const alias = undatedId(model);
  for (const id of model === alias ? [model] : [model, alias]) {
    const own = Object.hasOwn(overrides, id) ? overrides[id] : undefined;
    if (own) return own;
    if (Object.hasOwn(PRICES, id)) return PRICES[id];
  }
  return undefined;
}

/**
 * Returns the cost in USD of **one call**. Never pass a sum of several calls, because the rates depend on the length of each
 * prompt. Sum the results instead.
 */
export function costUsd(usage: Usage, price: Price): number {
  const long = price.long_prompt;
  const rates = long && promptTokens(usage) > long.over_tokens ? long : price;
  return roundUsd(
    (usage.input_tokens * rates.input +
      usage.output_tokens * rates.output +
      usage.cache_read_input_tokens * rates.cache_read +
      usage.cache_creation_input_tokens * rates.cache_write) /
      MICRO,
  );
}

/** Returns the USD for one more token of a prompt, which the cache does not have: it may be written to it. 0 without a price. */
export function promptTokenUsd(price: Price | undefined): number {
  return price ? Math.max(price.input, price.cache_write) / MICRO : 0;
}

/** Rounds USD to nine decimals, so that sums do not end in the noise of binary fractions (0.0032887000000000003). */
export function roundUsd(usd: number): number {
  return Math.round(usd * 1e9) / 1e9;
}

/** Ids by common name. */
const MODEL_IDS: Readonly<Record<string, string>> = {
  haiku: "claude-haiku-5-5",
  sonnet: "claude-sonnet-5-5",
  opus: "claude-opus-5-5",
};

/** Returns the id for `name`: from `ids`, else Anthropic's in any case (`Opus`), else `name`; undefined for `inherit`. */
export function modelIdOf(
  name: string | undefined,
  ids: Readonly<Record<string, string>> = {},
): string | undefined {
  const common = name?.toLowerCase();
  if (name === undefined || common === undefined || common === "inherit") return undefined;
  for (const known of [name, common]) if (Object.hasOwn(ids, known)) return ids[known];
  return Object.hasOwn(MODEL_IDS, common) ? MODEL_IDS[common] : name;
}
