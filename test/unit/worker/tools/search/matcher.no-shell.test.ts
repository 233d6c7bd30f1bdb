/** Guarantee: patterns and schemas are matched on a machine without a shell, too; only there without the bounds that a shell sets. */
import { afterEach, expect, it, vi } from "vitest";
import { createMatcherProcesses } from "../../../../../src/worker/tools/search/matcher.ts";

const SHELL = "/bin/sh";
let hasShell = false;

vi.mock("node:fs", async (original) => {
  const real = await original<typeof import("node:fs")>();
  return { ...real, existsSync: (path: string) => (path === SHELL ? hasShell : real.existsSync(path)) };
});
vi.mock("node:child_process", async (original) => {
  const real = await original<typeof import("node:child_process")>();
  const spawn = (file: string, ...rest: [string[], object]) =>
    real.spawn(file === SHELL ? "/no/such/shell" : file, ...rest);
  return { ...real, spawn };
});

afterEach(() => {
  hasShell = false;
});

it("a machine without a shell runs a search and checks an output", async () => {
  const matcher = createMatcherProcesses(1).open(new AbortController().signal);
  expect(await matcher.lines({ source: "b", flags: "" }, ["a", "b"])).toEqual([1]);
  expect(await matcher.mismatch('{"type":"number"}', "1")).toBeUndefined();
  await matcher.close();
});

it("a machine that cannot start its shell now starts no process without bounds", async () => {
  hasShell = true;
  const matcher = createMatcherProcesses(1).open(new AbortController().signal);
  await expect(matcher.lines({ source: "b", flags: "" }, ["b"])).rejects.toMatchObject({
    reason: "unavailable",
  });
  await matcher.close();
});
