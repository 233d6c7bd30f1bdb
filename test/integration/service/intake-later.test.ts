/** Guarantee: a job that is to come again later is delayed at once, and not left to the end of its lock. */
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { openIntakeJobs } from "../../../src/shared/redis/intake-jobs.ts";
import { createIntakeQueue } from "../../../src/shared/redis/intake-queue.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a job without room waits in the queue with its delay, and nothing went wrong", async () => {
  const { redis, keys } = await openStage();
  const queue = createIntakeQueue(redis, keys);
  const lines: string[] = [];
  const jobs = openIntakeJobs(redis, keys, {
    take: async () => ({ status: "later", delayMs: 3_600_000 }),
    clock: systemClock,
    logger: createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } }),
  });
  closeAtEnd(async () => {
    await jobs.stop();
    await queue.stop();
  });
  await jobs.start();
  await queue.add("one", { prompt: "go" });
  const isDelayed = async () => (await redis.zscore(keys.delayedIntake, "one")) !== null;
  await until(async () => lines.length > 0 || (await isDelayed()));
  expect(lines).toEqual([]);
});
