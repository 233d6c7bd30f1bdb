/** Guarantee: a worker that receives no hints is not ready, however well its other connections are. */
import { expect, test } from "vitest";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a worker whose subscription is cut off again and again says that Redis is away, until it has one", async () => {
  const stage = await openStage({ redis: "own" });
  const worker = await stage.startWorker();
  await until(async () => (await worker.readiness()).ready);
  const cutOff = async () => {
    await stage.redis.client("KILL", "TYPE", "pubsub");
    return (await worker.readiness()).redis === "away";
  };
  await until(cutOff);
  expect(await stage.redis.ping()).toBe("PONG");
  await until(async () => (await worker.readiness()).ready);
});
