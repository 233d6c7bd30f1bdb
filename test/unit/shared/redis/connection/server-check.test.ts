import { expect, test } from "vitest";
import { closeRedis, openRedis } from "../../../../../src/shared/redis/connection/connection.ts";
import {
  type AskedServer,
  checkServer,
  serverRefusal,
} from "../../../../../src/shared/redis/connection/server-check.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { redisUrl, startPrivateRedis } from "../../../../helpers/redis.ts";

const GOOD = {
  redis_version: "7.0.15",
  aof_enabled: "1",
  maxmemory_policy: "noeviction",
  cluster_enabled: "0",
  role: "master",
  used_memory: "1000",
  maxmemory: "0",
};

/** A server that says this about itself; `undefined` takes a line of INFO away. */
function server(
  info: Partial<Record<string, string>> = {},
  settings: Record<string, string> = {},
): AskedServer {
  const lines = Object.entries<string | undefined>({ ...GOOD, ...info });
  const text = lines
    .flatMap(([name, value]) => (value === undefined ? [] : [`${name}:${value}`]))
    .join("\r\n");
  const known: Record<string, string> = { appendfsync: "everysec", ...settings };
  return {
    info: async () => `# Server\r\n${text}\r\n`,
    config: async (_get: string, name: string) => (known[name] === undefined ? [] : [name, known[name]]),
  } as AskedServer;
}

test("a server that is set as production needs it has no problems", async () => {
  const report = await checkServer(server());
  expect(report).toEqual({
    product: "redis",
    version: "7.0.15",
    aof: "on",
    appendfsync: "everysec",
    evictionPolicy: "noeviction",
    role: "master",
    usedMemoryBytes: 1_000,
    maxMemoryBytes: 0,
    problems: [],
    troubles: [],
  });
  expect(serverRefusal(report, true)).toBeUndefined();
});

test.for([
  [{ aof_enabled: "0" }, /config set appendonly yes.*"appendonly yes" into redis\.conf/],
  [
    { maxmemory_policy: "allkeys-lru" },
    /config set maxmemory-policy noeviction.*"maxmemory-policy noeviction" into redis\.conf/,
  ],
] as const)("%j is refused in production mode only, and the refusal names the fix", async ([info, fix]) => {
  const report = await checkServer(server(info));
  expect(report.problems).toEqual([{ severity: "unsafe", sentence: expect.stringMatching(fix) }]);
  expect(serverRefusal(report, true)).toMatchObject({
    code: "invalid_config",
    message: expect.stringMatching(/^This Redis cannot be used in production mode\. /),
    details: { server: report.problems },
  });
  expect(serverRefusal(report, false)).toBeUndefined();
});

test("a server older than the commands of the scripts is refused in any mode", async () => {
  for (const [version, isRefused] of [
    ["6.0.16", true],
    ["6.2.0", false],
    ["7.0.0", false],
    ["8.1.0", false],
  ] as const) {
    const report = await checkServer(server({ redis_version: version }));
    expect(serverRefusal(report, false) !== undefined, version).toBe(isRefused);
  }
  const report = await checkServer(server({ redis_version: "6.2.14" }));
  expect(report.problems).toMatchObject([{ severity: "warning" }]);
});

test("Valkey is known by its own version", async () => {
  const report = await checkServer(server({ redis_version: "7.2.4", valkey_version: "8.0.1" }));
  expect(report).toMatchObject({ product: "valkey", version: "8.0.1", problems: [] });
});

test("what a managed server keeps to itself is a warning, not a refusal", async () => {
  const silent = {
    ...server({ aof_enabled: undefined, maxmemory_policy: undefined }),
    config: () => Promise.reject(new Error("ERR unknown command 'config', with args beginning with: ")),
  } as AskedServer;
  const report = await checkServer(silent);
  expect(report).toMatchObject({ aof: "unknown", appendfsync: "unknown", evictionPolicy: "unknown" });
  expect(report.problems.map(({ severity }) => severity)).toEqual(["warning", "warning"]);
  expect(serverRefusal(report, true)).toBeUndefined();
  const mute = { ...silent, info: () => Promise.reject(new Error("NOPERM no permissions")) } as AskedServer;
  expect(await checkServer(mute)).toMatchObject({ version: "unknown", role: "unknown" });
});

test("a server that cannot be asked is no report", async () => {
  const away = { ...server(), info: () => Promise.reject(new Error("Connection is closed.")) } as AskedServer;
  await expect(checkServer(away)).rejects.toThrow("Connection is closed.");
});

test("what passes by itself is trouble, not a setting: a replica, a full memory", async () => {
  const replica = await checkServer(server({ role: "slave" }));
  expect(replica).toMatchObject({
    role: "replica",
    problems: [],
    troubles: ["Redis is a read-only replica"],
  });
  const full = await checkServer(server({ used_memory: "2000", maxmemory: "2000" }));
  expect(full.troubles).toEqual(["Redis has no memory left (maxmemory 2000 bytes)"]);
});

test("an append-only file that reaches the disk whenever the system likes is worth a warning", async () => {
  const report = await checkServer(server({}, { appendfsync: "no" }));
  expect(report.problems).toEqual([
    { severity: "warning", sentence: expect.stringContaining("config set appendfsync everysec") },
  ]);
});

test("the servers of the tests, and one without a file, are read as they are", async () => {
  const ask = async (url: string) => {
    const redis = openRedis(url, "worker");
    closeAtEnd(() => closeRedis(redis));
    return checkServer(redis);
  };
  expect(await ask(redisUrl())).toMatchObject({
    evictionPolicy: "noeviction",
    role: "master",
  });
  const careless = await startPrivateRedis({
    arguments: ["--appendonly", "no", "--maxmemory-policy", "volatile-lru"],
  });
  const report = await ask(careless.url);
  expect(report.problems.map(({ severity }) => severity)).toEqual(["unsafe", "unsafe"]);
});
