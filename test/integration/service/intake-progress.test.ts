/** What a job of the intake stores while it waits. */
import { Queue } from "bullmq";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { openIntakeJobs } from "../../../src/shared/redis/intake-jobs.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("the wait of a job is stored once, however often it is tried", async () => {
  const { url, keys, redis } = await openStage();
  const connection = openRedis(url, "worker");
  closeAtEnd(() => closeRedis(connection));
  const queue = new Queue(keys.intakeQueue, { connection, prefix: keys.bullPrefix });
  closeAtEnd(() => queue.close());
  const waits: unknown[] = [];
  const jobs = openIntakeJobs(connection, keys, {
    async take({ wait }) {
      waits.push(wait);
      return { status: "later", delayMs: 1, wait: { since_ms: 1, until_ms: 2 } };
    },
    clock: systemClock,
    logger: createLogger({ level: "silent" }),
  });
  closeAtEnd(() => jobs.stop());
  await queue.add("task", {});
  await jobs.start();
  await until(() => waits.length >= 3);
  await jobs.stop();
  expect(waits.slice(0, 3)).toEqual([undefined, { since_ms: 1, until_ms: 2 }, { since_ms: 1, until_ms: 2 }]);
  const events = await redis.xrange(queue.toKey("events"), "-", "+");
  expect(events.filter(([, flat]) => flat.includes("progress"))).toHaveLength(1);
});
