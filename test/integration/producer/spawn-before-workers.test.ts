/** Spawns of a parent that starts before the workers do. */
import { expect, test } from "vitest";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { openStage } from "../../stage/stage.ts";

const FRESH_MS = 5_000;
const tools = ["look_up_order"];

test("tools that no worker has announced, because none is live, are reported and not refused, and known once one is", async () => {
  const stage = await openStage();
  const clock = handClock();
  const parent = stage.parent("planner-7", { client: stage.client({ clock }) });
  expect(await parent.spawn({ name: "early", tools })).toMatchObject({ unknown_tools: tools });
  const directory = createWorkerDirectory(stage.redis, stage.keys);
  await directory.announce({ id: "w1", tools, host: "h", version: "0.1.0", concurrency: 50 });
  closeAtEnd(() => directory.withdraw("w1"));
  clock.advance(FRESH_MS + 1);
  expect(await parent.spawn({ name: "late", tools })).toMatchObject({ unknown_tools: [] });
});
