/** Guarantee: threads are kept for the searches that are open; a start costs as much as 25 turns. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { createMatcherThreads } from "../../../../../src/worker/tools/search/matcher.ts";

/** Number of matching threads of this process: the only ones with that priority. */
function matchingThreads(): number {
  const stats = readdirSync("/proc/self/task").map((id) =>
    readFileSync(`/proc/self/task/${id}/stat`, "utf8"),
  );
  return stats.filter((stat) => stat.slice(stat.lastIndexOf(")") + 2).split(" ")[16] === "10").length;
}

it.runIf(process.platform === "linux")(
  "a search that ends leaves the threads to those that go on",
  async () => {
    const crew = createMatcherThreads(2);
    const { signal } = new AbortController();
    const [first, second] = [crew.open(signal), crew.open(signal)];
    const ask = () => [first, second].map((each) => each.lines({ source: "a", flags: "" }, ["a"]));
    await Promise.all(ask());
    const both = matchingThreads();
    await first.close();
    expect(matchingThreads()).toBe(both);
    await second.close();
    expect(matchingThreads()).toBeLessThan(both);
  },
);
