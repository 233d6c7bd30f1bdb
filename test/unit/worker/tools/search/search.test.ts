import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Worker } from "node:worker_threads";
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { openDirectory } from "../../../../../src/worker/tools/files/open.ts";
import { createSearchMeans, searchWithin } from "../../../../../src/worker/tools/search/search.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { openScene } from "../scene.ts";

it("a search that was cancelled fails, also when its work ended with what it had", async () => {
  const scene = await openScene();
  const stop = new AbortController();
  const start = await openDirectory(scene.workspace, ".");
  const searching = searchWithin(
    createSearchMeans(systemClock),
    scene.context(stop.signal),
    start,
    async () => {
      stop.abort();
    },
  );
  await expect(searching).rejects.toThrow("Cancelled while searching.");
});

it("searches that wait for each other share a thread, which ends with the last of them", async () => {
  const scene = await openScene();
  const means = createSearchMeans(systemClock);
  const started: Worker[] = [];
  const onThread = (message: unknown) => void started.push((message as { worker: Worker }).worker);
  subscribe("worker_threads", onThread);
  closeAtEnd(() => void unsubscribe("worker_threads", onThread));
  const starts = await Promise.all(Array.from({ length: 8 }, () => openDirectory(scene.workspace, ".")));
  const searches = starts.map((start) =>
    searchWithin(means, scene.context(), start, async (matcher) => {
      expect(await matcher.paths("*.txt", ["a.txt", "b.js"])).toEqual([0]);
    }),
  );
  await Promise.all(searches);
  expect(started.map(({ threadId }) => threadId)).toEqual([-1]);
});
