import { expect, test } from "vitest";
import {
  defaultAnswerTo,
  permissionQuestion,
  permits,
  QuestionInput,
} from "../../../../src/shared/protocol/message.ts";

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

test.each([
  "allow",
  "Allow.",
  ' "allow"\n',
  "`allow`",
  "allowed",
  "yes",
  "Yes!",
  "OK",
  "okay, ",
  "approve",
  "approved",
])("the answer %j permits a call", (answer) => {
  expect(permits(answer)).toBe(true);
});

test.each([
  ...[
    "",
    "no",
    "y",
    "allow?",
    "ok?",
    "?ok",
    "(allow)",
    "not allow",
    "allow it",
    "allow, but once",
    "allow\nno",
  ],
  ...[
    "絶対に OK しない",
    "нельзя! не ok",
    "не allow",
    "allow não",
    "不ok",
    "ok👎",
    "disallow",
    "allow-not",
    "0 allow",
  ],
])("the answer %j permits no call: it is the reason", (answer) => {
  expect(permits(answer)).toBe(false);
});

test("a permission question names the words that permit", () => {
  const { text } = permissionQuestion("1/a", "write_file", {}, "Write(**)");
  expect(text).toContain('Answer "allow" or "yes"; anything else refuses it and is its reason.');
  for (const [, named = ""] of text.matchAll(/"([a-z]+)"/g)) expect(permits(named)).toBe(true);
});
