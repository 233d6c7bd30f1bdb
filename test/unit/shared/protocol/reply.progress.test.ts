import fc from "fast-check";
import { expect, test } from "vitest";
import {
  STORED_COUNTS,
  totalTokens,
  type Usage,
  usageText,
  ZERO_USAGE,
} from "../../../../src/shared/protocol/content.ts";
import {
  NOTHING_DONE,
  progressJson,
  RunProgress,
  STORED_PROGRESS,
} from "../../../../src/shared/protocol/reply.ts";

const { summary: _, ...NOTHING } = NOTHING_DONE;
const usage = { ...ZERO_USAGE, input_tokens: 538, output_tokens: 84 };
const usual = {
  ...{ ...NOTHING, turns: 2, cost_usd: 0.25, duration_ms: 25, model: "m", tools_called: { look: 2 } },
  ...{ usage, tokens: totalTokens(usage) },
};
const read = (json: string) => RunProgress.parse(JSON.parse(json));

test("a usual progress is a short list, and says nothing that follows from the rest", () => {
  expect(progressJson(usual)).toBe('[2,0.25,25,[538,84],{"look":2},"m",0]');
  expect(progressJson({ ...usual, said: 3 })).toBe('[2,0.25,25,[538,84],{"look":2},"m",3]');
});

test("each value stands where the list of names has it, which is where scripts read it", () => {
  const usage: Usage = {
    input_tokens: 11,
    output_tokens: 12,
    cache_read_input_tokens: 13,
    cache_creation_input_tokens: 14,
  };
  const whole = { ...usual, usage, said: 3, error: "it broke" };
  const listed: unknown[] = JSON.parse(progressJson(whole));
  expect(JSON.parse(usageText(usage))).toEqual(STORED_COUNTS.map((name) => usage[name]));
  expect(listed).toEqual([
    ...STORED_PROGRESS.map((name) => (name === "usage" ? JSON.parse(usageText(usage)) : whole[name])),
    { error: "it broke" },
  ]);
});

test("a progress is read as it was written, with members that few have", () => {
  const count = fc.nat();
  const progress = fc.record(
    {
      turns: count,
      cost_usd: fc.double({ min: 0, max: 1e6, noNaN: true }).map((cost) => cost + 0),
      duration_ms: count,
      usage: fc.record({
        input_tokens: count,
        output_tokens: count,
        cache_read_input_tokens: fc.constantFrom(0, 7),
        cache_creation_input_tokens: fc.constantFrom(0, 9),
      }),
      tools_called: fc.dictionary(fc.constantFrom("look", 'a"b', "constructor"), fc.integer({ min: 1 })),
      model: fc.string(),
      said: count,
      truncated: fc.boolean(),
      alerts: fc.array(fc.constant({ kind: "turns" as const, threshold: 1, value: 2 }), { maxLength: 1 }),
      output: fc.jsonValue(),
      unknown_tools: fc.array(fc.string()),
      compactions: fc.integer({ min: 1 }),
      files: fc.array(fc.constant({ path: "a", size_bytes: 1 }), { maxLength: 1 }),
      more_files: fc.constant(true as const),
      error: fc.string(),
    },
    {
      requiredKeys: [
        ...(["turns", "cost_usd", "duration_ms", "usage", "tools_called"] as const),
        ...(["model", "said", "truncated", "alerts"] as const),
      ],
    },
  );
  fc.assert(
    fc.property(progress, (written) => {
      const whole = { ...written, tokens: totalTokens(written.usage) };
      expect(read(progressJson(whole))).toEqual(JSON.parse(JSON.stringify(whole)));
    }),
  );
});

test("a lone surrogate, which no script can decode, does not stand in it", () => {
  expect(read(progressJson({ ...usual, error: "half \ud83d", model: "\udc00" }))).toMatchObject({
    error: "half \ufffd",
    model: "\ufffd",
  });
});
