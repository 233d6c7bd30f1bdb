/** What a model call costs: a dated price table, the operator's overrides, and the arithmetic. Pure. */
import { z } from "zod";
import { promptTokens, type Usage } from "./content.ts";

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
 * List prices by model id, from https://platform.claude.com/docs/en/about-claude/pricing. A model that is not
 * here has no known price: nothing is guessed from its neighbours. The offline model costs nothing.
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

const SNAPSHOT_DATE = /-\d{8}$/;

/**
 * The price of `model`, or undefined when nobody knows it (then a cost cap cannot be kept and is refused).
 * `overrides` win over the table; a dated snapshot (`claude-opus-4-5-20251101`) costs what its alias costs.
 * Only exact ids and snapshots match: a newer minor version is another model.
 */
export function priceOf(model: string, overrides: PriceOverrides = {}): Price | undefined {
  const alias = model.replace(SNAPSHOT_DATE, "");
  for (const id of model === alias ? [model] : [model, alias]) {
    const own = Object.hasOwn(overrides, id) ? overrides[id] : undefined;
    if (own) return own;
    if (Object.hasOwn(PRICES, id)) return PRICES[id];
  }
  return undefined;
}

/**
 * USD for **one call**'s usage. Never pass a sum of several calls: which rates apply depends on the length
 * of each prompt. Sum the results instead.
 */
export function costUsd(usage: Usage, price: Price): number {
  const long = price.long_prompt;
  const rates = long && promptTokens(usage) > long.over_tokens ? long : price;
  return (
    (usage.input_tokens * rates.input +
      usage.output_tokens * rates.output +
      usage.cache_read_input_tokens * rates.cache_read +
      usage.cache_creation_input_tokens * rates.cache_write) /
    1_000_000
  );
}
