/** Guarantee: a model that writes null for the default that it omits asks its question all the same. */
import { expect, test } from "vitest";
import { questionOf } from "../../../../src/worker/loop/next.ts";
import { rules } from "./story.ts";

test("a question without a default may say so by null", () => {
  const ask = (input: object) =>
    questionOf({ id: "c-1", name: "ask_parent", input }, 1, rules({}, { canAsk: true }));
  const asked = { question_id: "1/c-1", text: "Blue?" };
  expect(ask({ question: "Blue?", default_answer: null })).toEqual(asked);
  expect(ask({ question: "Blue?", default_answer: "yes" })).toEqual({ ...asked, default_answer: "yes" });
  expect(ask({ question: null })).toBeUndefined();
});
