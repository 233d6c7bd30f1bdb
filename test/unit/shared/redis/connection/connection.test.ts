import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, test, vi } from "vitest";
import { createLogger } from "../../../../../src/shared/logger.ts";
import {
  closeRedis,
  openRedis,
  whenAccepted,
  whenTried,
} from "../../../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { startProxy } from "../../../../helpers/proxy.ts";
import { redisUrl, startPrivateRedis, uniquePrefix } from "../../../../helpers/redis.ts";
import { freePort } from "../../../../helpers/redis-server.ts";
import { until } from "../../../../helpers/until.ts";

test.each(["connecting", "reconnecting"])(
  "what waits for Redis is rejected when a %s connection is closed",
  async (status) => {
    const redis = openRedis(`redis://127.0.0.1:${await freePort()}`, "worker");
    await until(() => redis.status === status, { everyMs: 1, what: status });
    const waiting = redis.get("x");
    closeRedis(redis);
    await expect(waiting).rejects.toThrow("Connection is closed");
  },
);

test("a wait for Redis leaves no listener behind, whether it was accepted or closed", async () => {
  const redis = openRedis(redisUrl(), "worker");
  const listeners = () => ["ready", "error", "end"].map((event) => redis.listenerCount(event));
  const before = listeners();
  await whenAccepted(redis);
  expect(listeners()).toEqual(before);
  closeRedis(redis);
  await until(() => redis.status === "end");
  const atTheEnd = listeners();
  await expect(whenAccepted(redis)).rejects.toMatchObject({ code: "closed" });
  expect(listeners()).toEqual(atTheEnd);
});

test("a first attempt that is over leaves no timer, which would keep its process awake", async () => {
  const redis = openRedis(redisUrl(), "producer");
  closeAtEnd(() => closeRedis(redis));
  const clock = handClock();
  await whenTried(redis, clock);
  expect(clock.pending).toBe(0);
});

test("what was under way when Redis died is rejected when the connection is closed before it is back", async () => {
  const server = await startPrivateRedis();
  const redis = openRedis(server.url, "worker");
  closeAtEnd(() => closeRedis(redis));
  await redis.ping();
  server.freeze();
  const underWay = redis.get("x");
  await server.kill();
  await until(() => redis.status === "reconnecting", { everyMs: 1 });
  closeRedis(redis);
  await expect(underWay).rejects.toThrow("Connection is closed");
});

test("a duplicate gives up a handshake that nobody answers, and connects anew", async () => {
  const clock = handClock();
  const proxy = await startProxy(Number(new URL(redisUrl()).port));
  proxy.blackhole();
  const redis = openRedis(`redis://127.0.0.1:${proxy.port}`, "worker", undefined, clock);
  closeAtEnd(() => closeRedis(redis));
  const duplicate = redis.duplicate();
  closeAtEnd(() => closeRedis(duplicate));
  await until(() => redis.status === "connect" && duplicate.status === "connect");
  clock.advance(5_000);
  await until(() => proxy.counts.accepted === 4, { what: "both to connect anew" });
  proxy.heal();
  expect(await Promise.all([redis.ping(), duplicate.ping()])).toEqual(["PONG", "PONG"]);
});

test("a database that Redis does not have is refused: the connection never becomes ready on another one", async () => {
  const redis = openRedis(`${redisUrl()}/99`, "worker");
  closeAtEnd(() => closeRedis(redis));
  let wasReady = false;
  redis.on("ready", () => {
    wasReady = true;
  });
  await expect(whenAccepted(redis)).rejects.toMatchObject({
    code: "invalid_config",
    message: expect.stringMatching(/DB index is out of range/),
  });
  const writing = redis.set(uniquePrefix(), "1").then(
    () => "written",
    () => "refused",
  );
  let retries = 0;
  redis.on("connect", () => retries++);
  await until(() => retries > 2, { what: "it to try again" });
  expect(wasReady).toBe(false);
  closeRedis(redis);
  expect(await writing).toBe("refused");
});

test("a Redis that is no cluster is refused where the address says that it is one", async () => {
  const redis = openRedis(redisUrl().replace("redis://", "redis+cluster://"), "worker");
  closeAtEnd(() => closeRedis(redis));
  await expect(whenAccepted(redis)).rejects.toMatchObject({
    code: "invalid_config",
    message: expect.stringMatching(/that Redis is no cluster: write redis:\/\/host:port/),
  });
});

test("a wrong password is refused, and a Redis that is away is waited for until the connection is closed", async () => {
  const wrong = openRedis(redisUrl().replace("//", "//nobody:canary@"), "worker");
  closeAtEnd(() => closeRedis(wrong));
  await expect(whenAccepted(wrong)).rejects.toMatchObject({ code: "invalid_config" });
  const away = openRedis(`redis://127.0.0.1:${await freePort()}`, "worker");
  const waiting = whenAccepted(away);
  closeRedis(away);
  await expect(waiting).rejects.toMatchObject({ code: "closed" });
});

test("a subscription made at any moment of connecting keeps its connection", async () => {
  for (let turn = 0; turn < 30; turn++) {
    const redis = openRedis(redisUrl(), "subscriber");
    closeAtEnd(() => closeRedis(redis));
    let closed = 0;
    redis.on("close", () => closed++);
    await until(() => redis.status === "connect" || redis.status === "ready", {
      everyMs: 0,
      what: "connected",
    });
    await redis.subscribe("x");
    await redis.subscribe("y");
    await until(() => redis.status === "ready" || closed > 0, { everyMs: 0, what: "ready" });
    expect(closed).toBe(0);
  }
});

test("a password that Redis does not ask for is a line of the log, and nothing on the console", async () => {
  const server = await startPrivateRedis();
  const onConsole = vi.spyOn(console, "warn").mockImplementation(() => {});
  closeAtEnd(() => onConsole.mockRestore());
  const lines: string[] = [];
  const logger = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });
  const redis = openRedis(server.url.replace("//", "//:canary@"), "worker", logger);
  closeAtEnd(() => closeRedis(redis));
  const duplicate = redis.duplicate();
  closeAtEnd(() => closeRedis(duplicate));
  expect([await redis.ping(), await duplicate.ping()]).toEqual(["PONG", "PONG"]);
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({ role: "worker", msg: expect.stringContaining("asks for no password") }),
  ]);
  expect(onConsole).not.toHaveBeenCalled();
});

test.each([
  ["a server", [], ""],
  ["a node of a cluster", ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"], "+cluster"],
])(
  "a user who may not ask %s for INFO is one line of the log, and nothing on the console",
  async (_, more, scheme) => {
    const server = await startPrivateRedis({ arguments: more });
    const admin = openRedis(server.url, "worker");
    closeAtEnd(() => closeRedis(admin));
    if (scheme !== "") await admin.call("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
    await admin.call("ACL", "SETUSER", "narrow", "on", ">canary", "~*", "&*", "+@all", "-info");
    const onConsole = vi.spyOn(console, "warn").mockImplementation(() => {});
    closeAtEnd(() => onConsole.mockRestore());
    const lines: string[] = [];
    const logger = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });
    const url = server.url.replace("redis://", `redis${scheme}://narrow:canary@`);
    const redis = openRedis(url, "worker", logger);
    closeAtEnd(() => closeRedis(redis));
    await until(async () => (await redis.get(uniquePrefix()).catch(() => "")) === null);
    const duplicate = redis.duplicate();
    closeAtEnd(() => closeRedis(duplicate));
    await until(async () => (await duplicate.get(uniquePrefix()).catch(() => "")) === null);
    await expect(redis.info("server")).rejects.toThrow("NOPERM");
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({
        role: "worker",
        msg: expect.stringMatching(/INFO.*docs\/operations\.md names$/),
      }),
    ]);
    expect(onConsole).not.toHaveBeenCalled();
  },
);

test("a server without TLS at an address with TLS is a line of the log that says so", async () => {
  const server = createServer((socket) => void socket.destroy()).listen(0, "127.0.0.1");
  closeAtEnd(() => void server.close());
  await once(server, "listening");
  const lines: string[] = [];
  const logger = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });
  const { port } = server.address() as AddressInfo;
  const redis = openRedis(`rediss://127.0.0.1:${port}`, "worker", logger);
  closeAtEnd(() => closeRedis(redis));
  const [line = ""] = await until(() => lines.length > 0 && lines);
  expect(JSON.parse(line)).toMatchObject({
    advice: "if that Redis has no TLS, write redis:// in place of rediss://",
  });
});

test.each(["worker", "subscriber"] as const)(
  "a password that Redis no longer accepts is one line of a %s, and a new one after it was accepted again",
  async (role) => {
    const server = await startPrivateRedis();
    const admin = openRedis(server.url, "worker");
    closeAtEnd(() => closeRedis(admin));
    const allow = () => admin.acl("SETUSER", "guest", "on", ">canary", "~*", "&*", "+@all");
    const refuse = () => admin.acl("DELUSER", "guest");
    await allow();
    const lines: string[] = [];
    const logger = createLogger({
      destination: { write: (line) => void lines.push(JSON.parse(line).problem) },
    });
    const redis = openRedis(server.url.replace("//", "//guest:canary@"), role, logger);
    closeAtEnd(() => closeRedis(redis));
    await whenAccepted(redis);
    const refusals = () => lines.filter((problem) => problem.includes("WRONGPASS")).length;
    for (const outage of [1, 2]) {
      let attempts = 0;
      const count = () => attempts++;
      await refuse();
      redis.on("connect", count);
      await until(() => attempts > 3, { what: "it to try again" });
      redis.off("connect", count);
      expect(refusals()).toBe(outage);
      await allow();
      await until(() => redis.ping().then(Boolean, () => false));
    }
  },
);
