import { expect, test } from "vitest";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection.ts";
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
