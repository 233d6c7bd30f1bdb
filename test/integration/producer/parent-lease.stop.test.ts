/** Guarantee: a parent's lease holds before its first agent is there, and expires after its stop. */
import { expect, test } from "vitest";
import { redisNowMs } from "../../../src/shared/redis/redis-time.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const lease = { onParentGone: "destroy", ms: 1_000 } as const;

test("no agent is spawned under a lease that cannot be held", async () => {
  const stage = await openStage();
  const parent = stage.parent("unheld", { lease });
  await stage.redis.set(stage.keys.parent(parent).lease, "of the wrong kind");
  await expect(parent.spawn({ name: "a" })).rejects.toThrow();
  expect(await stage.store.liveRecords(parent)).toEqual([]);
});

test("a stopped parent's lease expires, though its client goes on", async () => {
  const stage = await openStage();
  const client = stage.client();
  const parent = stage.parent("stopped", { client, lease });
  await parent.spawn({ name: "a" });
  await parent.stop();
  const key = stage.keys.parent(parent).lease;
  await until(
    async () => (await redisNowMs(stage.redis)) > Number(await stage.redis.hget(key, "held_until")),
  );
  expect(await stage.parent("stopped", { client }).list()).toMatchObject([{ agent_id: "a" }]);
});
