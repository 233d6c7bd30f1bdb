import { expect, test } from "vitest";
import { defaultAnswerTo, QuestionInput } from "../../../../src/shared/protocol/message.ts";

test("a question is words, at most 5,000 characters of them, and so is its default", () => {
  const longest = "𝒶".repeat(5_000);
  expect(QuestionInput.parse({ question: longest, default_answer: longest, seconds: 5 })).toEqual({
    question: longest,
    default_answer: longest,
  });
  for (const wrong of [" ", `${longest}x`, 1, undefined]) {
    expect(QuestionInput.safeParse({ question: wrong }).success).toBe(false);
    const answer = QuestionInput.safeParse({ question: "Which?", default_answer: wrong });
    expect(answer.success).toBe(wrong === undefined);
  }
});

test("a default cannot be taken for the parent's word", () => {
  const question = { question_id: "1/a", text: "Which?" };
  expect(defaultAnswerTo({ ...question, default_answer: "this" })).toMatch(
    /^No answer came in time.*: this$/,
  );
  expect(defaultAnswerTo(question)).toMatch(/^No answer came in time.* best judgement/);
});
