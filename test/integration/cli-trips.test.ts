/** What a verb costs before its work begins: over a slow line each connection and each trip is time that a person waits. */
import { expect, test } from "vitest";
import { readWorkersAndPause } from "../../src/cli/local/client.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { closeRedis, openRedis, whenAccepted } from "../../src/shared/redis/connection/connection.ts";
import { openInstallation } from "../../src/shared/redis/installation.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { programOn } from "../helpers/program-on-stage.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";

test("list opens three connections, and asks each that sends commands once what server it is", async () => {
  const stage = await openStage({ redis: "own" });
  const program = programOn(stage);
  const counts = async () => {
    const info = await stage.observer.info("all");
    const count = (name: RegExp) => Number(name.exec(info)?.[1] ?? 0);
    return {
      connections: count(/total_connections_received:(\d+)/),
      infos: count(/cmdstat_info:calls=(\d+)/),
    };
  };
  await counts();
  const before = await counts();
  expect((await program("list", "--parent", "cli")).code).toBe(0);
  const after = await counts();
  expect(after.connections - before.connections).toBe(3);
  // One INFO is that of the test.
  expect(after.infos - before.infos - 1).toBe(2);
});

test("workers, pause and clock are asked in one trip", async () => {
  const stage = await openStage({ redis: "own", proxied: true });
  const redis = openRedis(stage.url, "asker");
  closeAtEnd(() => closeRedis(redis));
  await whenAccepted(redis);
  stage.proxy.pause();
  const read = readWorkersAndPause(openInstallation(redis, { prefix: stage.prefix }), systemClock);
  await until(() => ["smembers", ":paused", "time"].every((word) => stage.proxy.held.includes(word)));
  stage.proxy.resume();
  expect(await read).toMatchObject({ workers: [], paused: undefined });
});
