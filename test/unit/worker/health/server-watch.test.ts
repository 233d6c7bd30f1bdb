import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { createServerWatch } from "../../../../src/worker/health/server-watch.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { startPrivateRedis } from "../../../helpers/redis.ts";
import { until } from "../../../helpers/until.ts";

test("what the last check found is told for ten seconds: a server that no check reaches any more is no full one", async () => {
  const server = await startPrivateRedis();
  const redis = openRedis(server.url, "worker");
  closeAtEnd(() => closeRedis(redis));
  const clock = handClock();
  const watch = createServerWatch(redis, { clock, logger: createLogger({ level: "silent" }), strict: false });
  closeAtEnd(() => watch.stop());
  await watch.admit();
  await redis.config("SET", "maxmemory", "1");
  clock.advance(5_000);
  await until(() => watch.reasons().length > 0);
  server.freeze();
  clock.advance(9_999);
  expect(watch.reasons()).toEqual(["Redis has no memory left (maxmemory 1 bytes)"]);
  clock.advance(1);
  expect(watch.reasons()).toEqual([]);
});
