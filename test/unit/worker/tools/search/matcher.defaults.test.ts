/** Guarantee: all searches of a process share two threads, unless it is told otherwise. */
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

it("four searches at once are served by two threads", async () => {
  const crew = createMatcherThreads();
  const { signal } = new AbortController();
  const matchers = Array.from({ length: 4 }, () => crew.open(signal));
  await Promise.all(matchers.map((matcher) => matcher.lines({ source: "a", flags: "" }, ["a"])));
  expect(threads.started).toBe(2);
  await Promise.all(matchers.map((matcher) => matcher.close()));
});
