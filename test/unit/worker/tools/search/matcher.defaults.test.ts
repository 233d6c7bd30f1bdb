/** Guarantee: all searches of a process share two threads, and one that was stopped before starts none. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, it, vi } from "vitest";
import { createMatcherThreads } from "../../../../../src/worker/tools/search/matcher.ts";

/** Threads that were started. */
const threads = vi.hoisted(() => ({ started: 0 }));
vi.mock("node:worker_threads", async (original) => {
  const real = await original<typeof import("node:worker_threads")>();
  class Worker extends real.Worker {
    constructor(...args: ConstructorParameters<typeof real.Worker>) {
      super(...args);
      threads.started += 1;
    }
  }
  return { ...real, Worker };
});

/** The nice values of the threads of this process. */
function niceValues(): (string | undefined)[] {
  return readdirSync("/proc/self/task").map((id) => {
    const stat = readFileSync(`/proc/self/task/${id}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[16];
  });
}

it("a search that was stopped before it began starts no thread", async () => {
  const matcher = createMatcherThreads().open(AbortSignal.abort());
  await expect(matcher.lines({ source: "a", flags: "" }, ["a"])).rejects.toThrow("The search was stopped.");
  expect(threads.started).toBe(0);
  await matcher.close();
});

it("four searches at once are served by two threads of low priority", async () => {
  const crew = createMatcherThreads();
  const { signal } = new AbortController();
  const matchers = Array.from({ length: 4 }, () => crew.open(signal));
  await Promise.all(matchers.map((matcher) => matcher.lines({ source: "a", flags: "" }, ["a"])));
  expect(threads.started).toBe(2);
  if (process.platform === "linux") expect(niceValues().filter((nice) => nice === "10")).toHaveLength(2);
  await Promise.all(matchers.map((matcher) => matcher.close()));
});
