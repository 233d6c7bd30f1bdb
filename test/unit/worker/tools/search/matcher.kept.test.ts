/** Guarantee: processes are kept for the searches that are open; a start costs as much as a hundred turns. */
import { expect, it } from "vitest";
import { createMatcherProcesses } from "../../../../../src/worker/tools/search/matcher.ts";
import { matchingProcesses } from "../../../../helpers/matching-processes.ts";

it.runIf(process.platform === "linux")(
  "a search that ends leaves the processes to those that go on",
  async () => {
    const crew = createMatcherProcesses(2);
    const { signal } = new AbortController();
    const [first, second] = [crew.open(signal), crew.open(signal)];
    const ask = () => [first, second].map((each) => each.lines({ source: "a", flags: "" }, ["a"]));
    await Promise.all(ask());
    const both = matchingProcesses().length;
    await first.close();
    expect(matchingProcesses().length).toBe(both);
    await second.close();
    expect(matchingProcesses().length).toBeLessThan(both);
  },
);
