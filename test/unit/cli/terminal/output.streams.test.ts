/** What differs between the two streams of a command. */
import { expect, test } from "vitest";
import { createOutput } from "../../../../src/cli/terminal/output.ts";

function streamTo(written: string[], isTTY: boolean) {
  return { isTTY, columns: 80, rows: 24, on: () => {}, write: (text: string) => written.push(text) };
}

test("a result in a pipe has no colour, though notes on the terminal have", () => {
  const output = createOutput(streamTo([], false), streamTo([], true), {});
  expect(output.resultStyle("red", "x")).toBe("x");
  expect(output.style("red", "x")).not.toBe("x");
});

test("notes name commands as they can be called; a result is not changed", () => {
  const [results, notes]: [string[], string[]] = [[], []];
  const called = (line: string) => line.replace("subagent-queue", "npx subagent-queue");
  const output = createOutput(streamTo(results, false), streamTo(notes, false), {}, called);
  output.result("see subagent-queue list");
  output.note("see subagent-queue list");
  expect([results, notes]).toEqual([["see subagent-queue list\n"], ["see npx subagent-queue list\n"]]);
});
