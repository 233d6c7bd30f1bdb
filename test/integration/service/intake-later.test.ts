/** Guarantee: a job that is to come again later is delayed at once by the process that holds it, and by no other. */
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { openIntakeJobs } from "../../../src/shared/redis/intake-jobs.ts";
import { createIntakeQueue } from "../../../src/shared/redis/intake-queue.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

/** Adds a job that is to come again in an hour, and waits for its delay or a warning; `begun` happens while it is at work. */
async function later(begun: (stage: Stage) => Promise<unknown>) {
  const stage = await openStage();
  const { redis, keys } = stage;
  const queue = createIntakeQueue(redis, keys);
  const lines: string[] = [];
  const jobs = openIntakeJobs(redis, keys, {
    take: async () => {
      await begun(stage);
      return { status: "later", delayMs: 3_600_000 };
    },
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
  return { lines, isDelayed: await isDelayed() };
}

test("a job without room waits in the queue with its delay, and nothing went wrong", async () => {
  expect(await later(async () => {})).toEqual({ lines: [], isDelayed: true });
});

test("a job that another process has taken over is left to it", async () => {
  const takeOver = ({ redis, keys }: Stage) => redis.set(`${keys.intakeJob("one")}:lock`, "another");
  const { lines, isDelayed } = await later(takeOver);
  expect([lines.length, isDelayed]).toEqual([1, false]);
});
