/** Guarantee: an expression means the same in both engines, and whatever was asked before in its process. */
import { expect, it } from "vitest";
import { createMatcherProcesses } from "../../../../../src/worker/tools/search/matcher.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

const { signal } = new AbortController();

it.each([
  ["v8", "ab", []],
  // V8 does not end on the long line: the linear engine answers.
  ["linear", "(x+x+)+y", ["x".repeat(60)]],
])("the case of letters is ignored or not in %s, each time as asked", async (_engine, source, endless) => {
  const matcher = createMatcherProcesses(1).open(signal);
  closeAtEnd(() => matcher.close());
  const lines = ["AB XXY", "ab xxy", ...endless];
  expect(await matcher.lines({ source, flags: "i" }, lines)).toEqual([0, 1]);
  expect(await matcher.lines({ source, flags: "" }, lines)).toEqual([1]);
  expect(await matcher.lines({ source, flags: "i" }, lines)).toEqual([0, 1]);
});
