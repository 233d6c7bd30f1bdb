/** When a watch checks its server, what it logs, and what it leaves behind. */
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { createServerWatch } from "../../../../src/worker/health/server-watch.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { startPrivateRedis } from "../../../helpers/redis.ts";
import { until } from "../../../helpers/until.ts";

/** A watch in production mode. */
function watching(url: string) {
  const redis = openRedis(url, "worker");
  closeAtEnd(() => closeRedis(redis));
  const clock = handClock();
  const lines: { msg: string }[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(JSON.parse(line)) } });
  const listeners = () => ["ready", "error"].map((event) => redis.listenerCount(event));
  const before = listeners();
  const watch = createServerWatch(redis, { clock, logger, strict: true });
  closeAtEnd(() => watch.stop());
  return { redis, clock, lines, watch, listeners, before };
}

test("a server in trouble is checked each second, and its settings are logged once", async () => {
  const { url } = await startPrivateRedis();
  const { redis, clock, lines, watch } = watching(url);
  await redis.config("SET", "appendonly", "yes");
  await watch.admit();
  const logged = () => lines.filter(({ msg }) => msg === "Redis must not be used as it is set").length;
  await redis.config("SET", "appendonly", "no");
  clock.advance(5_000);
  await until(() => watch.reasons().length > 0 && clock.pending === 1, { timeoutMs: 20_000 });
  await redis.config("SET", "maxmemory", "1");
  clock.advance(1_000);
  await until(() => watch.reasons().length > 1 && clock.pending === 1, { timeoutMs: 20_000 });
  expect(logged()).toBe(1);
  await redis.config("SET", "maxmemory", "0");
  await redis.config("SET", "appendonly", "yes");
  clock.advance(1_000);
  await until(() => watch.reasons().length === 0 && clock.pending === 1, { timeoutMs: 20_000 });
});

test("however often a connection opens again, one check is to come; a watch that has stopped leaves nothing behind", async () => {
  const { redis, clock, watch, listeners, before } = watching((await startPrivateRedis()).url);
  await redis.config("SET", "appendonly", "yes");
  await watch.admit();
  for (const _ of [1, 2, 3]) {
    redis.disconnect(true);
    await until(() => redis.status === "ready" && clock.pending === 1);
  }
  await redis.config("SET", "maxmemory", "1");
  // Both fall into one check.
  redis.emit("ready");
  redis.emit("ready");
  await until(() => watch.reasons().length > 0);
  // A second check would have asked as much as the first by then.
  for (const _ of [1, 2, 3]) await redis.ping();
  expect(clock.pending).toBe(1);
  watch.stop();
  expect([clock.pending, listeners()]).toEqual([0, before]);
});
