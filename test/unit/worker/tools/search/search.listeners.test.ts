/** Guarantee: a search that has its turn leaves nothing on the signal of its call. */
import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import { createSearchQueue } from "../../../../../src/worker/tools/search/search.ts";

it("a turn that was given leaves no listener", async () => {
  const { signal } = new AbortController();
  const end = await createSearchQueue().enter("run", signal);
  expect(getEventListeners(signal, "abort")).toEqual([]);
  end();
});
