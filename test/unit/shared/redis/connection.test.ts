import { expect, test } from "vitest";
import { SubagentError } from "../../../../src/shared/errors.ts";
import { closeRedis, openRedis, parseRedisUrl } from "../../../../src/shared/redis/connection.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { redisUrl } from "../../../helpers/redis.ts";
import { freePort } from "../../../helpers/redis-server.ts";
import { until } from "../../../helpers/until.ts";

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

test.for([
  ["redis://localhost", { host: "localhost", port: 6379 }],
  ["redis://10.0.0.1:7000/3", { host: "10.0.0.1", port: 7000, db: 3 }],
  ["redis://u%40x:p%3Aw@h:1", { host: "h", port: 1, username: "u@x", password: "p:w" }],
  ["redis://:secret@h", { host: "h", port: 6379, password: "secret" }],
  ["redis://[::1]:6380", { host: "::1", port: 6380 }],
  ["rediss://h", { host: "h", port: 6379, tls: {} }],
  ["unix:///run/my%20redis.sock", { path: "/run/my redis.sock" }],
] as const)("%s is understood", ([url, options]) => {
  expect(parseRedisUrl(url)).toEqual(options);
});

test.for([
  "",
  "localhost:6379",
  "http://h",
  "redis://",
  "redis://h/db",
  "redis://h:99999",
  "unix://",
  "unix:///",
])("%j is refused with the forms that would do", (url) => {
  expect(() => parseRedisUrl(url)).toThrow(SubagentError);
  expect(() => parseRedisUrl(url)).toThrow(/redis:\/\/host:port, rediss:\/\/host:port or unix:\/\/\/path/);
});

test("a refusal never shows the password", () => {
  expect(() => parseRedisUrl("http://user:hunter2@h")).toThrow(/http:\/\/\*\*\*@h/);
  expect(() => parseRedisUrl("redis://user:hunter2@h/x")).not.toThrow(/hunter2/);
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
