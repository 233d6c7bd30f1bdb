import { expect, it } from "vitest";
import type { Step } from "../../../../src/offline/conversation.ts";
import { isKnown, nextByRule } from "../../../../src/offline/rules/rulebook.ts";

const ALL = ["ask_parent", "glob", "grep", "read_file", "write_file"];
const next = (request: string | string[], steps: Step[] = [], offered = ALL) =>
  nextByRule({
    requests: [request].flat(),
    steps,
    lastToolResult: "",
    offered: new Set(offered),
    finalCall: false,
    openDirectories: [],
  });
const step = (name: string, input: Step["input"], output: string, failed = false): Step => ({
  name,
  input,
  output,
  failed,
});

it.each([
  ["Ask your parent: Which city? Write the answer to city.txt", "Which city?"],
  ["First ask your parent which city to take. Then go on.", "which city to take"],
  ["ask your parent – may I?", "may I?"],
])("asks what “%s” wants to know", (text, question) => {
  expect(next(text)).toEqual([{ name: "ask_parent", input: { question } }]);
});

it.each([
  "What would your parent ask?",
  "How does write work in src/server.ts?",
  "Write a poem",
  "Good morning!",
])("says that no rule answers “%s”", (text) => {
  expect(isKnown(text)).toBe(false);
  expect(next(text)).toContain(`I cannot answer this by rule, I am no language model: “${text}”`);
});

it("hands the parent's answer on, and says when there was none", () => {
  const input = { question: "Which city?" };
  const request = "Ask your parent: Which city?";
  expect(next(request, [step("ask_parent", input, "Zürich")])).toBe("Zürich");
  expect(next(request, [step("ask_parent", input, "no.", true)])).toBe("I got no answer (ask_parent: no.).");
  expect(next(request, [], [])).toBe("I cannot do this now: `ask_parent` may not be used.");
});

it("answers each of several messages, after looking up for all of them", () => {
  const both = ["How many TODO comments are there?", "List the .md files"];
  const calls = next(both);
  expect(calls).toMatchObject([{ name: "grep" }, { name: "glob", input: { pattern: "**/*.md", path: "." } }]);
  if (typeof calls === "string") throw new Error(calls);
  const [grep, glob] = calls;
  const steps = [
    step("grep", grep?.input ?? {}, "a.ts:1:// TODO x"),
    step("glob", glob?.input ?? {}, "n.md"),
  ];
  expect(next([...both, "Good morning!"], steps)).toBe(
    "There is 1 TODO comment in 1 file:\n- a.ts: 1\n\n1 file:\n- n.md\n\n" +
      "I cannot answer this by rule, I am no language model: “Good morning!”",
  );
});

it.each([
  ['Please write "hello there" to out/greeting.txt', "out/greeting.txt", "hello there", "11 bytes"],
  ["Write `x` into the file ./b.csv", "b.csv", "x", "1 byte"],
  ['Save "a b" to "x.txt"', "x.txt", "a b", "3 bytes"],
])("writes what “%s” gives", (text, file_path, content, size) => {
  expect(next(text)).toEqual([{ name: "write_file", input: { file_path, content } }]);
  const written = step("write_file", { file_path, content }, "ok");
  expect(next(text, [written])).toContain(`I wrote ${file_path} (${size})`);
  expect(next(text, [{ ...written, output: "disk full", failed: true }])).toBe(
    `${file_path} was not written (write_file: disk full).`,
  );
});
