/** Guarantee: board and metrics do not wait for a Redis that went away after the request was let in. */
import { createServer } from "node:http";
import express from "express";
import { expect, test, vi } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { openBoard } from "../../../src/service/api/board.ts";
import { createApiMetrics } from "../../../src/service/api/metrics.ts";
import type { MountParts } from "../../../src/service/api/mount.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("board and metrics answer with an error when Redis falls silent before their first command, and as before when it answers again", async () => {
  const stage = await openStage({ redis: "own" });
  const client = stage.client();
  const { redis } = await internalsOf(client).open();
  const mounts = [openBoard(client, systemClock).mount, createApiMetrics(client, systemClock).mount];
  const app = express();
  // As the API mounts them, without its guards: those would answer first.
  for (const { path, handler } of mounts) app.use(path, handler({} as MountParts));
  const url = await listenUntilEnd(createServer(app));
  const status = async (path: string) => {
    const response = await fetch(url + path);
    await response.text();
    return response.status;
  };
  const time = redis.time.bind(redis);
  vi.spyOn(redis, "time").mockImplementationOnce(async () => {
    const answer = await time();
    stage.server.freeze();
    return answer;
  });
  // Bull Board answers 500 for a command that was under way; what counts is that it does not wait.
  expect(await status("/admin/queues/api/queues")).toBeGreaterThanOrEqual(500);
  expect(await status("/admin/queues/api/queues")).toBe(503);
  expect(await status("/metrics")).toBe(503);
  stage.server.thaw();
  await until(async () => (await status("/admin/queues/api/queues")) === 200);
  expect(await status("/metrics")).toBe(200);
});
