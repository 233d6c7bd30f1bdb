/** Guarantee: when the last thread is gone and the machine gives no other, each request that waits is told so. */
import { expect, it, vi } from "vitest";
import { createMatcherThreads } from "../../../../../src/worker/tools/search/matcher.ts";

const threads = vi.hoisted(() => ({ refused: false }));
vi.mock("node:worker_threads", async (original) => {
  const real = await original<typeof import("node:worker_threads")>();
  class Worker extends real.Worker {
    constructor(...args: ConstructorParameters<typeof real.Worker>) {
      if (threads.refused) throw new Error("EAGAIN");
      super(...args);
    }
  }
  return { ...real, Worker };
});

it("requests that waited for a thread that took too long are all refused", async () => {
  const pool = createMatcherThreads(1);
  const matchers = Array.from({ length: 3 }, () => pool.open(new AbortController().signal));
  const bomb = { source: "^(a+)+$", flags: "" };
  const asked = matchers.map((matcher) => matcher.lines(bomb, [`${"a".repeat(60)}!`]));
  threads.refused = true;
  const answers = await Promise.allSettled(asked);
  expect(answers.map((answer) => answer.status === "rejected" && answer.reason.reason)).toEqual([
    "unavailable",
    "unavailable",
    "unavailable",
  ]);
  for (const matcher of matchers) await matcher.close();
});
