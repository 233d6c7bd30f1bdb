import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ModelFailure } from "../../../../src/worker/model/model.ts";
import {
  BASE_DELAY_MS,
  MAX_DELAY_MS,
  MAX_RETRY_AFTER_MS,
  retryDelayMs,
} from "../../../../src/worker/model/retry.ts";

const overloaded: ModelFailure = { kind: "overloaded", retryable: true, message: "Overloaded" };
const almostOne = 1 - Number.EPSILON;

describe("retryDelayMs", () => {
  test("has full jitter: anything from nothing to the bound", () => {
    expect(retryDelayMs(overloaded, 1, 0)).toBe(0);
    expect(retryDelayMs(overloaded, 1, 0.5)).toBe(BASE_DELAY_MS / 2);
    expect(retryDelayMs(overloaded, 1, almostOne)).toBe(BASE_DELAY_MS);
  });

  test("doubles its bound with every attempt up to a minute", () => {
    const bounds = [1, 2, 3, 7, 8, 9, 5_000].map((attempt) => retryDelayMs(overloaded, attempt, almostOne));
    expect(bounds).toEqual([500, 1_000, 2_000, 32_000, 60_000, 60_000, MAX_DELAY_MS]);
  });

  test("never waits less than the provider asked and at most a tenth longer, also for hours", () => {
    const delay = fc.integer({ min: MAX_DELAY_MS, max: MAX_RETRY_AFTER_MS });
    const random = fc.double({ min: 0, max: almostOne, noNaN: true });
    fc.assert(
      fc.property(delay, fc.integer({ min: 1, max: 50 }), random, (retryAfterMs, attempt, draw) => {
        const waitMs = retryDelayMs({ ...overloaded, retryAfterMs }, attempt, draw);
        expect(waitMs).toBeGreaterThanOrEqual(retryAfterMs);
        expect(waitMs).toBeLessThanOrEqual(Math.ceil(retryAfterMs * 1.1));
      }),
    );
  });

  test("spreads what was asked of a whole fleet over a tenth more", () => {
    const waits = [0, 0.5, almostOne].map((draw) =>
      retryDelayMs({ ...overloaded, retryAfterMs: 100_000 }, 1, draw),
    );
    expect(waits).toEqual([100_000, 105_000, 110_000]);
  });

  test("still backs off when the provider asks for next to nothing", () => {
    expect(retryDelayMs({ ...overloaded, retryAfterMs: 0 }, 4, 0.5)).toBe(2_000);
  });

  test("does not wait for years", () => {
    const waitMs = retryDelayMs({ ...overloaded, retryAfterMs: 1e15 }, 1, almostOne);
    expect(waitMs).toBeLessThanOrEqual(MAX_RETRY_AFTER_MS + MAX_DELAY_MS);
  });
});
