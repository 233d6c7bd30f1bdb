import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { createServerWatch } from "../../../../src/worker/health/server-watch.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { startPrivateRedis } from "../../../helpers/redis.ts";
import { until } from "../../../helpers/until.ts";

test("a watch that is stopped during a check plans no other one", async () => {
  const redis = openRedis((await startPrivateRedis()).url, "worker");
  closeAtEnd(() => closeRedis(redis));
  const clock = handClock();
  const logger = createLogger({ level: "silent" });
  const watch = createServerWatch(redis, { clock, logger, strict: false });
  await watch.admit();
  expect(clock.pending).toBe(1);
  await redis.config("SET", "maxmemory", "1");
  redis.emit("ready");
  expect(clock.pending).toBe(0);
  watch.stop();
  await until(() => watch.reasons().length > 0);
  await redis.ping();
  expect(clock.pending).toBe(0);
});
