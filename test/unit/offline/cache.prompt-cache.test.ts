import { describe, expect, it } from "vitest";
import { createPromptCache } from "../../../src/offline/cache.ts";

const prefix = (hash: string, tokens: number, breakpoint = true, blocks = 1) => ({
  hash,
  tokens,
  blocks,
  breakpoint,
});

describe("the prompt cache", () => {
  it("writes the prefix up to the last breakpoint and reads it the next time", () => {
    const cache = createPromptCache();
    const first = { prefixes: [prefix("a", 10), prefix("b", 30, false)], inputTokens: 30 };
    expect(cache.charge(first)).toEqual({
      input_tokens: 20,
      cache_creation_input_tokens: 10,
      cache_read_input_tokens: 0,
    });
    const second = { prefixes: [prefix("a", 10), prefix("b", 30)], inputTokens: 30 };
    expect(cache.charge(second)).toEqual({
      input_tokens: 0,
      cache_creation_input_tokens: 20,
      cache_read_input_tokens: 10,
    });
    expect(cache.charge(second)).toEqual({
      input_tokens: 0,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 30,
    });
  });

  it("looks for what was written up to 20 blocks before a breakpoint", () => {
    for (const [blocks, read] of [
      [21, 10],
      [22, 0],
    ] as const) {
      const cache = createPromptCache();
      cache.charge({ prefixes: [prefix("a", 10)], inputTokens: 10 });
      const next = { prefixes: [prefix("a", 10, false), prefix("b", 30, true, blocks)], inputTokens: 30 };
      expect(cache.charge(next)).toEqual({
        input_tokens: 0,
        cache_creation_input_tokens: 30 - read,
        cache_read_input_tokens: read,
      });
    }
  });

  it("does nothing for a request without a breakpoint", () => {
    const cache = createPromptCache();
    const request = { prefixes: [prefix("a", 10, false)], inputTokens: 10 };
    cache.charge(request);
    expect(cache.charge(request)).toEqual({
      input_tokens: 10,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
    });
  });

  it("forgets what was not used for its time to live, and use prolongs it", () => {
    let now = 0;
    const cache = createPromptCache({ ttlMs: 100, now: () => now });
    const request = { prefixes: [prefix("a", 10)], inputTokens: 10 };
    cache.charge(request);
    now = 99;
    expect(cache.charge(request).cache_read_input_tokens).toBe(10);
    now = 198;
    expect(cache.charge(request).cache_read_input_tokens).toBe(10);
    now = 298;
    expect(cache.charge(request).cache_read_input_tokens).toBe(0);
  });

  it("keeps a bounded number of prefixes, the least recently used going first", () => {
    const cache = createPromptCache({ maxEntries: 2 });
    const request = (hash: string) => ({ prefixes: [prefix(hash, 10)], inputTokens: 10 });
    cache.charge(request("a"));
    cache.charge(request("b"));
    cache.charge(request("a"));
    cache.charge(request("c"));
    expect(cache.charge(request("a")).cache_read_input_tokens).toBe(10);
    expect(cache.charge(request("b")).cache_read_input_tokens).toBe(0);
  });
});
