/** Guarantee: a wake that was returned by a worker whose clock is minutes ahead keeps no agent waiting until that time. */
import { DelayedError, Worker } from "bullmq";
import { expect, test } from "vitest";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { createWakeQueue, DELAYED_SCORE } from "../../../src/shared/redis/wake-queue.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { verbRig } from "./rig.ts";

test("a returned wake counts as alive if its delay ends when it should, not if the clock that set it was minutes ahead", async () => {
  const { redis, keys, address } = verbRig();
  const queue = createWakeQueue(redis, keys);
  closeAtEnd(() => queue.stop());
  const { uid, tenant, parentId: parent_id } = address();
  await queue.add({ uid, tenant, parent_id, agent_id: "researcher", wake: 1 });
  const returned = latch();
  const connection = openRedis(redisUrl(), "worker");
  const worker = new Worker(
    keys.wakeQueue,
    async (job, token) => {
      await job.moveToDelayed(Date.now() + 60_000, token);
      returned.open();
      throw new DelayedError();
    },
    { connection, prefix: keys.bullPrefix },
  );
  closeAtEnd(async () => {
    await worker.close(true);
    closeRedis(connection);
  });
  await returned.opened;
  const isAliveAhead = async (seconds: number) => {
    await redis.zincrby(keys.delayedWakes, seconds * 1_000 * DELAYED_SCORE, `${uid}.1`);
    return queue.isAlive({ uid, wake: 1 });
  };
  expect(await isAliveAhead(0)).toBe(true);
  expect(await isAliveAhead(5)).toBe(true);
  expect(await isAliveAhead(120)).toBe(false);
});
