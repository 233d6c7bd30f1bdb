import { expect, test } from "vitest";
import { modelIdOf, sumUsage } from "../../../../src/shared/protocol/usage.ts";

const DAY_MS = 86_400_000;
const RECORD = {
  "20000/runs": "2",
  "20000/turns": "5",
  "20000/input_tokens": "10",
  "20000/output_tokens": "20",
  "20000/cache_read_input_tokens": "30",
  "20000/cache_creation_input_tokens": "40",
  "20000/cost_micro_usd": "1500000",
  "20001/runs": "1",
  "20001/turns": "1",
  "20001/input_tokens": "1",
  "20001/cost_micro_usd": "1",
};

test("all days are summed, tokens are the sum of the four, money is in dollars", () => {
  expect(sumUsage(RECORD, 0)).toEqual({
    replies: 3,
    turns: 6,
    tokens: 101,
    usage: {
      input_tokens: 11,
      output_tokens: 20,
      cache_read_input_tokens: 30,
      cache_creation_input_tokens: 40,
    },
    cost_usd: 1.500001,
  });
});

test("a day counts as a whole, from the one in which the time lies", () => {
  expect(sumUsage(RECORD, 20_001 * DAY_MS + 5)).toMatchObject({ replies: 1, tokens: 1, cost_usd: 0.000001 });
  expect(sumUsage(RECORD, 20_001 * DAY_MS - 1).replies).toBe(3);
  expect(sumUsage(RECORD, 20_002 * DAY_MS)).toMatchObject({ replies: 0, tokens: 0, cost_usd: 0 });
});

test("a record that holds something else is refused", () => {
  expect(() => sumUsage({ "20000/runs": "many" }, 0)).toThrow();
});

test("a common name of a model stands for its id in whatever case, the operator's ids first", () => {
  const ids = { haiku: "ours-small", Special: "ours-special" };
  const asked = [
    "Opus",
    "SONNET",
    "Haiku",
    "haiku",
    "Special",
    "special",
    "Inherit",
    "claude-Opus-9",
    "toString",
  ];
  expect(asked.map((name) => modelIdOf(name, ids))).toEqual([
    ...["claude-opus-5-5", "claude-sonnet-5-5", "ours-small", "ours-small", "ours-special", "special"],
    ...[undefined, "claude-Opus-9", "toString"],
  ]);
});
