import { expect, test } from "vitest";
import { type Clock, systemClock } from "../../../../../src/shared/clock.ts";
import { closeRedis, dropRedis, openRedis } from "../../../../../src/shared/redis/connection/connection.ts";
import { startHeartbeat } from "../../../../../src/shared/redis/connection/heartbeat.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { startProxy } from "../../../../helpers/proxy.ts";
import { redisUrl, startPrivateRedis } from "../../../../helpers/redis.ts";
import { until } from "../../../../helpers/until.ts";

/** Calls back when what has arrived was read: between two of these looks lies one at all sockets. */
function afterOneTurn(callback: () => void): { cancel(): void } {
  let next = setImmediate(() => {
    next = setImmediate(callback);
  });
  return { cancel: () => clearImmediate(next) };
}

const timeoutOf =
  (clock: Clock): Clock["timeout"] =>
  (ms, callback) =>
    ms === 0 ? afterOneTurn(callback) : clock.timeout(ms, callback);

async function scene(role: "worker" | "subscriber") {
  const proxy = await startProxy(Number(new URL(redisUrl()).port));
  const redis = openRedis(`redis://127.0.0.1:${proxy.port}`, role);
  closeAtEnd(() => closeRedis(redis));
  const clock = handClock();
  // One turn of the event loop is a real one.
  const turning = { ...clock, timeout: timeoutOf(clock) };
  const heartbeat = startHeartbeat(redis, turning);
  closeAtEnd(() => heartbeat.stop());
  await until(() => heartbeat.isAlive, { what: "the first answer" });
  return { proxy, redis, clock, heartbeat };
}

test.each(["worker", "subscriber"] as const)(
  "a %s whose other side is gone without a word is known after three seconds and dropped after the fifth",
  async (role) => {
    const { proxy, redis, clock, heartbeat } = await scene(role);
    proxy.strand();
    clock.advance(3_000);
    expect(heartbeat.isAlive).toBe(false);
    expect(redis.status).toBe("ready");
    clock.advance(4_000);
    await until(() => proxy.counts.accepted === 2, { what: "a new connection" });
    await until(() => heartbeat.isAlive, { what: "an answer over it" });
  },
);

test("an answer that is only late keeps the connection, however long this process stood still", async () => {
  const { proxy, redis, clock, heartbeat } = await scene("worker");
  if (!("stream" in redis)) throw new Error("one server was asked for");
  const received = redis.stream.bytesRead;
  redis.stream.pause();
  const { passed } = proxy;
  clock.advance(1_000);
  await until(() => proxy.passed > passed, { what: "the answer to lie in the socket" });
  // As after a stop of the process: the timers come before what has arrived.
  clock.advance(5_000);
  redis.stream.resume();
  await until(() => heartbeat.isAlive || proxy.counts.accepted > 1);
  expect(proxy.counts.accepted).toBe(1);
  expect(redis.stream.bytesRead).toBeGreaterThan(received);
});

test("a Redis that refuses even a PING is there: it answers", async () => {
  const server = await startPrivateRedis();
  const redis = openRedis(server.url, "worker");
  closeAtEnd(() => closeRedis(redis));
  await redis.acl("SETUSER", "default", "-ping");
  await expect(redis.ping()).rejects.toThrow("NOPERM");
  const clock = handClock();
  const heartbeat = startHeartbeat(redis, clock);
  closeAtEnd(() => heartbeat.stop());
  await until(() => heartbeat.isAlive, { what: "the refusal" });
  clock.advance(3_000);
  await until(() => heartbeat.isAlive, { what: "the next refusal" });
});

test("nothing is left of a heartbeat that was stopped, or whose connection ended", async () => {
  const { redis, clock, heartbeat } = await scene("worker");
  heartbeat.stop();
  heartbeat.stop();
  expect(clock.pending).toBe(0);
  // The connection goes on: a new socket does not begin the pings again.
  dropRedis(redis);
  await redis.ping();
  expect(clock.pending).toBe(0);
  const another = startHeartbeat(redis, clock);
  expect(clock.pending).toBe(1);
  closeRedis(redis);
  await until(() => clock.pending === 0, { what: "the timer to be taken back" });
  expect(another.isAlive).toBe(false);
});

test("on the machine's clock it lives as long as it is asked", async () => {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const heartbeat = startHeartbeat(redis, systemClock);
  closeAtEnd(() => heartbeat.stop());
  const pings = async () =>
    Number(/cmdstat_ping:calls=(\d+)/.exec(await redis.info("commandstats"))?.[1] ?? 0);
  await until(() => heartbeat.isAlive);
  const before = await pings();
  await until(async () => (await pings()) > before, { everyMs: 100 });
  expect(heartbeat.isAlive).toBe(true);
});
