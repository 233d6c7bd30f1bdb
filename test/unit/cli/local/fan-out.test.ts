import { expect, test } from "vitest";
import { labelsOf } from "../../../../src/cli/local/fan-out.ts";

test("one name stands as it is, several are numbered", () => {
  expect(labelsOf(["one"])).toEqual(["one"]);
  expect(labelsOf(["one", "two"])).toEqual(["1 one", "2 two"]);
});

test("the words that all names begin with are left out, so that narrow rows differ", () => {
  const names = ["Review the file src index.ts", "Review the file src server.ts"];
  expect(labelsOf(names)).toEqual(["1 … index.ts", "2 … server.ts"]);
});

test("what each shares with one other is left out, though not all share it", () => {
  const names = ["How many TODOs are in a.js?", "How many TODOs are in b.js?", "Which framework is it?"];
  expect(labelsOf(names)).toEqual(["1 … a.js?", "2 … b.js?", "3 Which framework is it?"]);
  expect(labelsOf(["the very same words", "the very same words"])).toEqual(["1 … words", "2 … words"]);
});

test("the labels of 20,000 prompts take time in proportion to their number", () => {
  const names = Array.from({ length: 20_000 }, (_, n) => `Review src/file${n}.ts and report`);
  const begin = process.cpuUsage();
  const labels = labelsOf(names);
  const { user } = process.cpuUsage(begin);
  expect(labels.at(-1)).toBe("20000 Review src/file19999.ts and report");
  expect(user / 1_000).toBeLessThan(5_000);
});
