import { describe, expect, test } from "vitest";
import { ZERO_USAGE } from "../../../../src/shared/protocol/content.ts";
import { costUsd, PRICES, Price, PriceOverrides, priceOf } from "../../../../src/shared/protocol/usage.ts";

const million = 1_000_000;
const usage = (over: Partial<typeof ZERO_USAGE>) => ({ ...ZERO_USAGE, ...over });

function known(model: string): Price {
  const price = priceOf(model);
  if (!price) expect.fail(`no price for ${model}`);
  return price;
}

describe("priceOf", () => {
  test("knows every model of the table, dated and well-formed", () => {
    for (const [model, price] of Object.entries(PRICES)) {
      expect(Price.parse(price), model).toEqual(price);
      expect(price.as_of, model).toMatch(/^\d{4}-\d{2}-\d{2}$/);
      expect(priceOf(model)).toBe(price);
    }
  });

  test("follows one rule: output costs five times the input, a cache write 1.25 times, a cache read at most a tenth", () => {
    for (const [model, price] of Object.entries(PRICES)) {
      for (const rates of [price, price.long_prompt ?? price]) {
        expect(rates.output, model).toBeCloseTo(5 * rates.input, 9);
        expect(rates.cache_write, model).toBeCloseTo(1.25 * rates.input, 9);
        expect(rates.cache_read, model).toBeLessThanOrEqual(rates.input / 10 + 1e-9);
        if (rates.input > 0) expect(rates.cache_read, model).toBeGreaterThan(0);
      }
    }
  });

  test.for(Object.keys(PRICES))("%s: a million tokens of each kind cost what its rates say", (model) => {
    const { input, output, cache_read, cache_write, long_prompt } = known(model);
    const one = (kind: keyof typeof ZERO_USAGE, n: number) => costUsd(usage({ [kind]: n }), known(model));
    const short = long_prompt ? long_prompt.over_tokens : million;
    expect(one("input_tokens", short)).toBeCloseTo((input * short) / million, 9);
    expect(one("output_tokens", million)).toBeCloseTo(output, 9);
    expect(one("cache_read_input_tokens", short)).toBeCloseTo((cache_read * short) / million, 9);
    expect(one("cache_creation_input_tokens", short)).toBeCloseTo((cache_write * short) / million, 9);
    if (!long_prompt) return;
    expect(one("input_tokens", short + 1)).toBeCloseTo((long_prompt.input * (short + 1)) / million, 9);
  });

  test("gives a dated snapshot the price of its alias", () => {
    expect(priceOf("claude-opus-4-5-20251101")).toBe(PRICES["claude-opus-4-5"]);
  });

  test.each([
    "claude-fable-5-2",
    "claude-opus-5-6",
    "claude-opus-5-5-fast",
    "gpt",
    "",
    "toString",
    "__proto__",
  ])("does not know %j and guesses nothing", (model) => {
    expect(priceOf(model)).toBeUndefined();
    expect(priceOf(model, {})).toBeUndefined();
  });

  test("prefers the operator's price, by exact id or alias of a snapshot", () => {
    const own = { input: 1, output: 2, cache_read: 0, cache_write: 0 };
    expect(priceOf("claude-opus-5-5", { "claude-opus-5-5": own })).toBe(own);
    expect(priceOf("my-model", { "my-model": own })).toBe(own);
    expect(priceOf("claude-opus-4-5-20251101", { "claude-opus-4-5": own })).toBe(own);
    expect(priceOf("claude-opus-5-5", { "my-model": own })).toBe(PRICES["claude-opus-5-5"]);
  });
});

describe("PriceOverrides", () => {
  test.each([
    { m: { input: -1, output: 1, cache_read: 0, cache_write: 0 } },
    { m: { input: 1, output: 1 } },
    { m: { input: "1", output: 1, cache_read: 0, cache_write: 0 } },
    { "": { input: 1, output: 1, cache_read: 0, cache_write: 0 } },
    { m: { input: 1, output: 1, cache_read: 0, cache_write: 0, as_of: "yesterday" } },
  ])("refuses %j", (overrides) => {
    expect(PriceOverrides.safeParse(overrides).success).toBe(false);
  });
});

describe("costUsd", () => {
  test("charges each kind of token at its own rate", () => {
    const price = known("claude-opus-5-5");
    expect(costUsd(usage({ input_tokens: million }), price)).toBeCloseTo(4);
    expect(costUsd(usage({ output_tokens: million }), price)).toBeCloseTo(20);
    expect(costUsd(usage({ cache_read_input_tokens: million }), price)).toBeCloseTo(0.2);
    expect(costUsd(usage({ cache_creation_input_tokens: million }), price)).toBeCloseTo(5);
  });

  test("charges a call with a long prompt at the long-prompt rates, cached input counted and output included", () => {
    const price = known("claude-haiku-5-5");
    const short = usage({ input_tokens: 40_000, cache_read_input_tokens: 60_000, output_tokens: million });
    expect(costUsd(short, price)).toBeCloseTo(0.004 + 0.0006 + 0.5);
    const long = usage({ input_tokens: 40_001, cache_read_input_tokens: 60_000, output_tokens: million });
    expect(costUsd(long, price)).toBeCloseTo(0.0200005 + 0.003 + 2.5);
  });

  test("is nothing for the offline model and for no usage", () => {
    expect(costUsd(usage({ input_tokens: million, output_tokens: million }), known("offline-1"))).toBe(0);
    expect(costUsd(ZERO_USAGE, known("claude-opus-5-5"))).toBe(0);
  });
});
