import { expect, test } from "vitest";
import { StoredUsage } from "../../../../src/shared/protocol/content.ts";

test("a usage without its last counts has none of them, and one with more than are known is not read without them", () => {
  const counts = {
    input_tokens: 5,
    output_tokens: 7,
    cache_read_input_tokens: 0,
    cache_creation_input_tokens: 0,
  };
  expect(StoredUsage.parse([5, 7])).toEqual(counts);
  expect(StoredUsage.safeParse([5, 7, 0, 0, 9]).success).toBe(false);
});
