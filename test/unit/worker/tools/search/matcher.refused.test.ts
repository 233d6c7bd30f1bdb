/** Guarantee: when the last process is gone and the machine gives no other, each request that waits is told so. */
import { expect, it, vi } from "vitest";
import { createMatcherProcesses } from "../../../../../src/worker/tools/search/matcher.ts";

const processes = vi.hoisted(() => ({ refused: false }));
vi.mock("node:child_process", async (original) => {
  const real = await original<typeof import("node:child_process")>();
  const spawn = (...args: Parameters<typeof real.spawn>) => {
    if (processes.refused) throw new Error("EAGAIN");
    return real.spawn(...args);
  };
  return { ...real, spawn };
});

it("requests that waited for a process that took too long are all refused", async () => {
  const pool = createMatcherProcesses(1);
  const matchers = Array.from({ length: 3 }, () => pool.open(new AbortController().signal));
  const bomb = { source: "^(a+)+$", flags: "" };
  const asked = matchers.map((matcher) => matcher.lines(bomb, [`${"a".repeat(60)}!`]));
  processes.refused = true;
  const answers = await Promise.allSettled(asked);
  expect(answers.map((answer) => answer.status === "rejected" && answer.reason.reason)).toEqual([
    "unavailable",
    "unavailable",
    "unavailable",
  ]);
  for (const matcher of matchers) await matcher.close();
});
