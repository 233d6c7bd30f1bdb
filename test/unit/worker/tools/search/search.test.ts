import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { openDirectory } from "../../../../../src/worker/tools/files/open.ts";
import { createSearchMeans, searchWithin } from "../../../../../src/worker/tools/search/search.ts";
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
