import { subscribe, unsubscribe } from "node:diagnostics_channel";
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

it("a search finds the thread of an earlier one, whatever set of tools either is of", async () => {
  const scene = await openScene();
  const started: unknown[] = [];
  const onThread = (thread: unknown) => void started.push(thread);
  subscribe("worker_threads", onThread);
  closeAtEnd(() => void unsubscribe("worker_threads", onThread));
  const search = async () => {
    const start = await openDirectory(scene.workspace, ".");
    await searchWithin(createSearchMeans(systemClock), scene.context(), start, async (matcher) => {
      expect(await matcher.paths("*.txt", ["a.txt", "b.js"])).toEqual([0]);
    });
  };
  await search();
  const first = started.length;
  for (let round = 0; round < 8; round++) await search();
  expect(started).toHaveLength(first);
});
