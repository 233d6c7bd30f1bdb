/** Guarantee: at most one process holds a lock at a time, whoever takes, keeps or releases it. */
import { expect, test } from "vitest";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { loadScripts } from "../../../src/shared/redis/scripts.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { startProxy } from "../../helpers/proxy.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";

function scene(url = redisUrl()) {
  const redis = openRedis(url, "worker");
  closeAtEnd(() => closeRedis(redis));
  const keys = keysUnder(uniquePrefix());
  const scripts = loadScripts(redis, keys, TIMING);
  const locks = {
    hold: async (lock: string, token: string, ms: number) =>
      (await scripts.run("lock-hold", undefined, { lock, token, ms })).status === "held",
    release: (lock: string, token: string) => scripts.run("lock-release", undefined, { lock, token }),
  };
  return { redis, lock: keys.callbackLock, locks };
}

test("a lock is its first taker's, who may keep it, until it is released or its time is over", async () => {
  const { redis, lock, locks } = scene();
  expect(await locks.hold(lock, "a", 60_000)).toBe(true);
  expect(await locks.hold(lock, "b", 60_000)).toBe(false);
  await redis.pexpire(lock, 1_000);
  expect(await locks.hold(lock, "a", 60_000)).toBe(true);
  expect(await redis.pttl(lock)).toBeGreaterThan(50_000);
  await locks.release(lock, "b");
  expect(await locks.hold(lock, "b", 60_000)).toBe(false);
  await locks.release(lock, "a");
  expect(await locks.hold(lock, "b", 60_000)).toBe(true);
});

test("keeping and releasing a lock is one step each: between two it could pass to another process", async () => {
  const proxy = await startProxy(Number(new URL(redisUrl()).port));
  const { lock, locks } = scene(`redis://127.0.0.1:${proxy.port}`);
  const steps = async (work: () => Promise<unknown>) => {
    const before = proxy.passed;
    await work();
    return proxy.passed - before;
  };
  await locks.hold(lock, "a", 60_000);
  expect(await steps(() => locks.hold(lock, "a", 60_000))).toBe(1);
  await locks.release(lock, "b");
  expect(await steps(() => locks.release(lock, "a"))).toBe(1);
});
