import { expect, test } from "vitest";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { createWakeQueue } from "../../../src/shared/redis/wake-queue.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { testClient, testParent } from "../../helpers/parents.ts";
import { startProxy } from "../../helpers/proxy.ts";
import { startPrivateRedis, uniquePrefix } from "../../helpers/redis.ts";
import { aSecond } from "../../helpers/second.ts";
import { until } from "../../helpers/until.ts";

test("a queue whose first contact with Redis failed takes the next wake", async () => {
  const server = await startPrivateRedis();
  const proxy = await startProxy(server.port);
  const redis = openRedis(`redis://127.0.0.1:${proxy.port}`, "producer");
  closeAtEnd(() => closeRedis(redis));
  await until(() => redis.status === "ready");
  const wakes = createWakeQueue(redis, keysUnder(uniquePrefix()));
  closeAtEnd(() => wakes.stop());
  const uid = `sa-${"0".repeat(24)}`;
  const wake = { tenant: "default", parent_id: "p", uid, agent_id: "a", wake: 1 };
  proxy.swallowEveryNthReply(1);
  await wakes.add(wake);
  expect(proxy.counts.swallowed).toBeGreaterThan(0);
  proxy.swallowEveryNthReply(undefined);
  await until(() => redis.status === "ready");
  await wakes.add({ ...wake, wake: 2 });
  expect(await wakes.isAlive({ uid, wake: 2 })).toBe(true);
});

test("a client stops within a second, also when Redis is frozen in the middle of a call", async () => {
  const server = await startPrivateRedis();
  const client = testClient({ redisUrl: server.url });
  const parent = testParent(client);
  await parent.spawn({ name: "a" });
  await parent.send("a", "go");
  server.freeze();
  const call = parent.list().catch((error: unknown) => error);
  const second = aSecond();
  await client.stop();
  expect(second.isOver()).toBe(false);
  expect(await call).toMatchObject({ code: expect.stringMatching(/^(closed|redis_unavailable)$/) });
  server.thaw();
});
