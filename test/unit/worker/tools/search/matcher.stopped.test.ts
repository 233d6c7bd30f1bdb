/** Guarantee: a search that is stopped leaves no process that computes for it. */
import { setImmediate } from "node:timers/promises";
import { expect, it } from "vitest";
import { createMatcherProcesses } from "../../../../../src/worker/tools/search/matcher.ts";
import { matchingProcesses } from "../../../../helpers/matching-processes.ts";

it.runIf(process.platform === "linux")(
  "a stopped search has no process any more when its matcher is closed",
  async () => {
    const before = matchingProcesses().length;
    const stop = new AbortController();
    const matcher = createMatcherProcesses(1).open(stop.signal);
    const matching = matcher.lines({ source: "^(a+)+\\1?$", flags: "" }, [`${"a".repeat(60)}!`]);
    expect(matchingProcesses().length).toBe(before + 1);
    let isOver = false;
    void matching.catch(() => {
      isOver = true;
    });
    stop.abort();
    // Not only when the time of the pattern is over.
    await setImmediate();
    expect(isOver).toBe(true);
    await expect(matching).rejects.toThrow("stopped");
    await matcher.close();
    expect(matchingProcesses().length).toBe(before);
  },
);
