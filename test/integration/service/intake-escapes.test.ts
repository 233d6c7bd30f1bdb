import { Queue } from "bullmq";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { type IntakeJob, openIntakeJobs } from "../../../src/shared/redis/intake-jobs.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("the data of a job is read where only its escapes make it long", async () => {
  const { url, keys } = await openStage();
  const redis = openRedis(url, "worker");
  closeAtEnd(() => closeRedis(redis));
  const queue = new Queue(keys.intakeQueue, { connection: redis, prefix: keys.bullPrefix });
  closeAtEnd(() => queue.close());
  const taken: IntakeJob[] = [];
  const jobs = openIntakeJobs(redis, keys, {
    async take(job) {
      taken.push(job);
      return { status: "done", value: null };
    },
    clock: systemClock,
    logger: createLogger({ level: "silent" }),
  });
  closeAtEnd(() => jobs.stop());
  // Six characters each: as an entry of the stream it has a sixth of the bytes.
  const data = { parent_id: "shell", prompt: "\u0001".repeat(250_000), system: "\u0002".repeat(250_000) };
  await queue.add("report", data);
  await jobs.start();
  await until(() => taken.length === 1);
  expect([taken[0]?.unread, taken[0]?.data]).toEqual([undefined, data]);
});
