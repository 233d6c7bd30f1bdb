import { access } from "node:fs/promises";
import { Redis } from "ioredis";
import { afterEach, expect, test } from "vitest";
import { closeAtEnd } from "./cleanup.ts";
import { FSYNC_NEVER, redisSocket, redisUrl, startPrivateRedis, uniquePrefix } from "./redis.ts";
import { startRedisServer } from "./redis-server.ts";
import { until } from "./until.ts";

function connectTo(address: string): Redis {
  const redis = new Redis(address, { retryStrategy: () => 20, maxRetriesPerRequest: null });
  redis.on("error", () => {});
  closeAtEnd(() => redis.disconnect());
  return redis;
}

test("the shared server is reachable by port and by socket and is set up as production demands", async () => {
  const [byPort, bySocket] = [connectTo(redisUrl()), connectTo(redisSocket())];
  const key = uniquePrefix();
  await byPort.set(key, "1");
  expect(await bySocket.get(key)).toBe("1");
  await byPort.del(key);
  expect(await byPort.config("GET", "maxmemory-policy")).toEqual(["maxmemory-policy", "noeviction"]);
  expect(await byPort.config("GET", "appendonly")).toEqual(["appendonly", "yes"]);
  expect(await byPort.config("GET", "appendfsync")).toEqual(["appendfsync", "everysec"]);
  expect(await byPort.config("GET", "save")).toEqual(["save", ""]);
});

test("two prefixes are never the same and need no escaping anywhere", () => {
  const prefixes = Array.from({ length: 1_000 }, uniquePrefix);
  expect(new Set(prefixes).size).toBe(1_000);
  expect(prefixes.filter((prefix) => !/^t[0-9a-f]{12}$/.test(prefix))).toEqual([]);
});

test("a private server that is killed comes back on its port with its data, and its client finds it", async () => {
  const server = await startPrivateRedis({ arguments: FSYNC_NEVER });
  const redis = connectTo(server.url);
  await redis.set("kept", "yes");
  const firstPid = server.pid;
  await server.kill();
  expect(server.pid).toBeUndefined();
  await server.start();
  expect(server.pid).not.toBe(firstPid);
  expect(await redis.get("kept")).toBe("yes");
});

test("a frozen server answers nothing until it is thawed", async () => {
  const server = await startPrivateRedis();
  const redis = connectTo(server.url);
  await redis.ping();
  server.freeze();
  let answered = false;
  const ping = redis.ping().then(() => {
    answered = true;
  });
  const bystander = connectTo(redisUrl());
  for (let round = 0; round < 20; round += 1) await bystander.ping();
  expect(answered).toBe(false);
  server.thaw();
  await ping;
});

test("stopping removes the directory, and stopping again changes nothing", async () => {
  const server = await startRedisServer();
  await server.stop();
  await server.stop();
  await expect(access(server.directory)).rejects.toThrow("ENOENT");
});

const binaryBefore = process.env.REDIS_SERVER_BIN;
afterEach(() => {
  if (binaryBefore === undefined) delete process.env.REDIS_SERVER_BIN;
  else process.env.REDIS_SERVER_BIN = binaryBefore;
});

test("a missing redis-server is reported with the command that installs it", async () => {
  process.env.REDIS_SERVER_BIN = "/nowhere/redis-server";
  await expect(startRedisServer()).rejects.toThrow(
    /cannot start "\/nowhere\/redis-server".*apt-get install redis-server/s,
  );
});

test("a server that refuses its arguments is reported with its own words", async () => {
  await expect(startRedisServer(["--maxmemory-policy", "nonsense"])).rejects.toThrow(
    /ended at once:.*nonsense/s,
  );
});

test("a private server is gone when its test is over", async () => {
  const pids: number[] = [];
  const server = await startRedisServer();
  closeAtEnd(() => server.stop());
  pids.push(server.pid ?? 0);
  await server.stop();
  await until(() => pids.every((pid) => !isAlive(pid)), { what: "the server's process to be gone" });
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
