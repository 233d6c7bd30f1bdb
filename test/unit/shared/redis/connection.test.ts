import { expect, test } from "vitest";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection.ts";
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
