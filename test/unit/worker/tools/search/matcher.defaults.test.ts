/** Guarantee: all searches of a process share two matching processes, which may end at any time, and one that was stopped starts none. */
import { once } from "node:events";
import { readlinkSync } from "node:fs";
import { getPriority } from "node:os";
import { resolve } from "node:path";
import { beforeEach, expect, it, vi } from "vitest";
import { createMatcherProcesses } from "../../../../../src/worker/tools/search/matcher.ts";

/** Processes that were started, what each loads before its program, and what it is told at once. */
const processes = vi.hoisted(() => ({
  started: [] as import("node:child_process").ChildProcess[],
  preload: [] as string[],
  firstSignal: undefined as NodeJS.Signals | undefined,
}));
vi.mock("node:child_process", async (original) => {
  const real = await original<typeof import("node:child_process")>();
  const spawn = (
    command: string,
    args: readonly string[],
    options: import("node:child_process").SpawnOptions,
  ) => {
    const child = real.spawn(command, args.toSpliced(-1, 0, ...processes.preload), options);
    if (processes.firstSignal) child.kill(processes.firstSignal);
    processes.started.push(child);
    return child;
  };
  return { ...real, spawn };
});

const { signal } = new AbortController();
const a = { source: "a", flags: "" };
beforeEach(() => Object.assign(processes, { started: [], preload: [], firstSignal: undefined }));

it("a search that was stopped before it began starts no process", async () => {
  const matcher = createMatcherProcesses().open(AbortSignal.abort());
  await expect(matcher.lines(a, ["a"])).rejects.toThrow("The search was stopped.");
  expect(processes.started).toHaveLength(0);
  await matcher.close();
});

it("four searches at once are served by two processes of low priority, in a directory that nobody removes", async () => {
  const crew = createMatcherProcesses();
  const matchers = Array.from({ length: 4 }, () => crew.open(signal));
  await Promise.all(matchers.map((matcher) => matcher.lines(a, ["a"])));
  expect(processes.started.map(({ pid }) => getPriority(pid))).toEqual([10, 10]);
  if (process.platform === "linux")
    expect(processes.started.map(({ pid }) => readlinkSync(`/proc/${pid}/cwd`))).toEqual(["/", "/"]);
  await Promise.all(matchers.map((matcher) => matcher.close()));
});

it("a process that has computed for long is replaced after its answer", async () => {
  processes.preload = ["--require", resolve("test/helpers/fixtures/much-cpu-time.cjs")];
  const matcher = createMatcherProcesses(1).open(signal);
  expect(await matcher.lines(a, ["a"])).toEqual([0]);
  expect(await matcher.lines(a, ["b", "a"])).toEqual([1]);
  expect(processes.started).toHaveLength(2);
  await matcher.close();
});

it("what stops all processes of a service ends no search; a process that is gone is replaced", async () => {
  const matcher = createMatcherProcesses(1).open(signal);
  expect(await matcher.lines(a, ["a"])).toEqual([0]);
  for (const stop of ["SIGINT", "SIGTERM", "SIGHUP"] as const) processes.started[0]?.kill(stop);
  expect(await matcher.lines(a, ["b", "a"])).toEqual([1]);
  expect(processes.started).toHaveLength(1);
  const gone = once(processes.started[0] as NodeJS.EventEmitter, "exit");
  processes.started[0]?.kill("SIGKILL");
  await gone;
  expect(await matcher.lines(a, ["a"])).toEqual([0]);
  expect(processes.started).toHaveLength(2);
  await matcher.close();
});

it("a search whose process is stopped while it starts, or cannot load its program, can be tried again", async () => {
  const matcher = createMatcherProcesses(1).open(signal);
  processes.firstSignal = "SIGTERM";
  await expect(matcher.lines(a, ["a"])).rejects.toMatchObject({ reason: "unavailable" });
  processes.firstSignal = undefined;
  processes.preload = ["--require", "/nowhere"];
  await expect(matcher.lines(a, ["a"])).rejects.toMatchObject({ reason: "unavailable" });
  processes.preload = [];
  expect(await matcher.lines(a, ["a"])).toEqual([0]);
  await matcher.close();
});
