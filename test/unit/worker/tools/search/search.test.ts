import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { setImmediate } from "node:timers/promises";
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { openDirectory } from "../../../../../src/worker/tools/files/open.ts";
import { createSearchMeans, searchWithin } from "../../../../../src/worker/tools/search/search.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { openScene } from "../scene.ts";

type Scene = Awaited<ReturnType<typeof openScene>>;

/** Opens the workspace of a scene as the place where a search begins. */
const opening = (scene: Scene) => async () => ({ directory: await openDirectory(scene.workspace, ".") });

it("a search opens nothing while it waits for its turn", async () => {
  const scene = await openScene();
  const means = createSearchMeans(systemClock);
  const order: string[] = [];
  const search = (name: string) =>
    searchWithin(
      means,
      scene.context(),
      () => {
        order.push(`${name} opens`);
        return opening(scene)();
      },
      async () => {
        await setImmediate();
        order.push(`${name} ends`);
      },
    );
  await Promise.all(["first", "second", "third"].map(search));
  expect(order).toEqual([
    "first opens",
    "first ends",
    "second opens",
    "second ends",
    "third opens",
    "third ends",
  ]);
});

it("a search that was cancelled fails, also when its work ended with what it had", async () => {
  const scene = await openScene();
  const stop = new AbortController();
  const searching = searchWithin(
    createSearchMeans(systemClock),
    scene.context(stop.signal),
    opening(scene),
    async () => {
      stop.abort();
    },
  );
  await expect(searching).rejects.toThrow("Cancelled while searching.");
});

it("a search finds the process of an earlier one, whatever set of tools either is of", async () => {
  const scene = await openScene();
  const started: unknown[] = [];
  const onStart = (child: unknown) => void started.push(child);
  subscribe("child_process", onStart);
  closeAtEnd(() => void unsubscribe("child_process", onStart));
  const search = async () => {
    await searchWithin(
      createSearchMeans(systemClock),
      scene.context(),
      opening(scene),
      async (_, matcher) => {
        expect(await matcher.paths("*.txt", ["a.txt", "b.js"])).toEqual([0]);
      },
    );
  };
  await search();
  const first = started.length;
  for (let round = 0; round < 8; round++) await search();
  expect(started).toHaveLength(first);
});
