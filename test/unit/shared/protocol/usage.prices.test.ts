/** Which of several prices counts: the one of the exact model, and the dearer one of a prompt that may go to the cache. */
import { expect, test } from "vitest";
import { priceOf, promptTokenUsd } from "../../../../src/shared/protocol/usage.ts";

const at = (input: number, cache_write = input) => ({ input, output: 9, cache_read: 0, cache_write });

test("a snapshot that has a price of its own costs that, and not what its alias costs", () => {
  const own = { "our-model": at(1), "our-model-20260101": at(2) };
  expect(priceOf("our-model-20260101", own)).toEqual(at(2));
  expect(priceOf("our-model", own)).toEqual(at(1));
  expect(priceOf("our-model-20260202", own)).toEqual(at(1));
});

test("an operator's price of an alias counts for its snapshots, which the table has under their alias", () => {
  expect(priceOf("claude-haiku-4-5-20251001", { "claude-haiku-4-5": at(7) })).toEqual(at(7));
});

test("one more token of a prompt costs what it costs to write it to the cache, or to read it where that is dearer", () => {
  expect(promptTokenUsd(at(4, 5))).toBe(0.000_005);
  expect(promptTokenUsd(at(4, 0))).toBe(0.000_004);
  expect(promptTokenUsd(undefined)).toBe(0);
});
