/** Guarantee: a job that another program put into the queue of wakes fails, says why, and holds up no run. */
import { Queue } from "bullmq";
import { expect, test } from "vitest";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a job that is no wake fails with a sentence, and the tasks behind it run", async () => {
  const stage = await openStage();
  const queue = new Queue(stage.keys.wakeQueue, {
    connection: stage.redis,
    prefix: stage.keys.bullPrefix,
  });
  closeAtEnd(() => queue.close());
  const uid = "../../elsewhere";
  const foreign = [
    {},
    null,
    "a text",
    [],
    { v: 1, tenant: "t", parent_id: "p", agent_id: "a", uid, wake: 1 },
  ];
  for (const data of foreign) await queue.add("anything", data);
  await stage.startWorker();
  const agent = await stage.task("Say hello.");
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded" });
  const failed = await until(async () => {
    const jobs = await queue.getFailed();
    return jobs.length === foreign.length && jobs;
  });
  const sentence = "This job names no run of an agent. Remove it.";
  expect(failed.map(({ failedReason }) => failedReason)).toEqual(foreign.map(() => sentence));
});
