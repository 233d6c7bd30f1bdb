/** Guarantee: a search that is stopped leaves no thread that computes for it. */
import { expect, it } from "vitest";
import { createMatcherThreads } from "../../../../../src/worker/tools/search/matcher.ts";

/** Number of threads that keep this process alive: those that work for a request. */
function busyThreads(): number {
  return process.getActiveResourcesInfo().filter((name) => name === "MessagePort").length;
}

it("a stopped search has no thread any more when its matcher is closed", async () => {
  const before = busyThreads();
  const stop = new AbortController();
  const matcher = createMatcherThreads(1).open(stop.signal);
  const matching = matcher.lines({ source: "^(a+)+\\1?$", flags: "" }, [`${"a".repeat(60)}!`]);
  expect(busyThreads()).toBe(before + 1);
  stop.abort();
  await expect(matching).rejects.toThrow("stopped");
  await matcher.close();
  expect(busyThreads()).toBe(before);
});
