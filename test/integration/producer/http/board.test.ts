import { appRoutes } from "@bull-board/api/dist/routes.js";
import { beforeAll, expect, test } from "vitest";
import { createBoard } from "../../../../src/producer/http/board.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../../helpers/redis.ts";
import { stageWakes, type WakeScene } from "../../../helpers/wake-scene.ts";

let scene: WakeScene;
let url = "";
beforeAll(async () => {
  const prefix = uniquePrefix();
  const board = createBoard({ redisUrl: redisUrl(), prefix });
  closeAtEnd(() => board.stop());
  await board.start();
  url = board.url;
  scene = await stageWakes(redisUrl(), prefix);
});
test("x", async () => {
  console.log(url, scene, appRoutes.api.length);
  const a = await (await fetch(`${url}/api/queues?activeQueue=wakes&jobsPerPage=20`)).text();
  console.log(JSON.stringify(JSON.parse(a), null, 1));
  expect(1).toBe(1);
});
