import { expect, it } from "vitest";
import { countComments, wordsToCount } from "../../../../src/offline/rules/count-comments.ts";

it.each([
  ["How many TODO comments are there?", ["TODO"]],
  ["count todo and fixme comments", ["TODO", "FIXME"]],
  ['How many lines contain "foo.bar("?', ["foo.bar("]],
  ["How many deprecated comments are there?", ["deprecated"]],
  ["How many people live here?", []],
])("reads out of “%s” what is to be counted", (text, words) => {
  expect(wordsToCount(text)).toEqual(words);
  expect(countComments.matches(text)).toBe(words.length > 0);
});

it("escapes what it searches for", () => {
  const draft = countComments.next({
    text: 'How many lines contain "a.b("?',
    steps: [],
    offered: new Set(["grep"]),
    places: ["."],
  });
  expect(draft).toMatchObject({ kind: "calls", calls: [{ input: { pattern: "a\\.b\\(", path: "." } }] });
});

it("says “at least” when the search was cut, and names what failed", () => {
  const task = { text: "How many TODO lines are there?", offered: new Set(["grep"]), places: ["."] };
  const step = {
    name: "grep",
    input: { pattern: "\\bTODO\\b", path: "." },
    failed: false,
    output: "a:1:TODO\n[output truncated]",
  };
  expect(countComments.next({ ...task, steps: [step] })).toMatchObject({
    text: expect.stringContaining("is at least 1 TODO line"),
  });
  const failed = { ...step, failed: true, output: "no such directory" };
  expect(countComments.next({ ...task, steps: [failed] })).toMatchObject({
    text: expect.stringContaining("grep failed: no such directory"),
  });
});
