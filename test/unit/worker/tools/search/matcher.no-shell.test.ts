/** Guarantee: patterns and schemas are matched on a machine without a shell, too. */
import { expect, it, vi } from "vitest";
import { createMatcherProcesses } from "../../../../../src/worker/tools/search/matcher.ts";

vi.mock("node:child_process", async (original) => {
  const real = await original<typeof import("node:child_process")>();
  const spawn = (file: string, ...rest: [string[], object]) =>
    real.spawn(file === "/bin/sh" ? "/no/such/shell" : file, ...rest);
  return { ...real, spawn };
});

it("a machine without a shell runs a search and checks an output", async () => {
  const matcher = createMatcherProcesses(1).open(new AbortController().signal);
  expect(await matcher.lines({ source: "b", flags: "" }, ["a", "b"])).toEqual([1]);
  expect(await matcher.mismatch('{"type":"number"}', "1")).toBeUndefined();
  await matcher.close();
});
