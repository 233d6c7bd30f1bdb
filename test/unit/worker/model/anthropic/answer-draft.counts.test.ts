/** What is counted where a provider reports tokens that no protocol has: parts of one, infinitely many, words. */
import { expect, test } from "vitest";
import { AnswerDraft } from "../../../../../src/worker/model/anthropic/answer-draft.ts";

const KINDS = [
  "input_tokens",
  "output_tokens",
  "cache_read_input_tokens",
  "cache_creation_input_tokens",
] as const;

/** Every kind of tokens counted as `values`, one report after another. */
function counted(...values: unknown[]) {
  const draft = new AnswerDraft("m", 100);
  draft.begin({ content: [] });
  for (const value of values) draft.count(Object.fromEntries(KINDS.map((kind) => [kind, value])));
  return KINDS.map((kind) => draft.usage[kind]);
}

test.each([
  [[7], 7],
  [[7.9], 7],
  [[7, 9], 9],
  [[7, -3], 0],
  [[7, null], 7],
  [[7, "9"], 7],
  [[7, Number.POSITIVE_INFINITY], 7],
  [[7, {}], 7],
] as [unknown[], number][])("reports of %j tokens count as %d", (values, tokens) => {
  expect(counted(...values)).toEqual(KINDS.map(() => tokens));
});
