/** Guarantee: a process has sixteen searches at a time. */
import { expect, it } from "vitest";
import { createSearchQueue } from "../../../../../src/worker/tools/search/search.ts";

it("the seventeenth search waits until one is over", async () => {
  const queue = createSearchQueue();
  const { signal } = new AbortController();
  const ends: (() => void)[] = [];
  for (let n = 1; n <= 18; n++) void queue.enter(`run-${n}`, signal).then((end) => ends.push(end));
  await new Promise(setImmediate);
  expect(ends).toHaveLength(16);
  ends[0]?.();
  await new Promise(setImmediate);
  expect(ends).toHaveLength(17);
});
