/** What a job returns that gives a message to an agent which takes further ones: no run belongs to such a job alone. */
import { Queue } from "bullmq";
import { expect, test } from "vitest";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("the job returns the receipt, and the reply comes to its parent's channel", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const { url: redisUrl, prefix, keys } = stage;
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl, prefix, client: stage.client(), logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
  const redis = openRedis(redisUrl, "worker");
  closeAtEnd(() => closeRedis(redis));
  const queue = new Queue(keys.intakeQueue, { connection: redis, prefix: keys.bullPrefix });
  closeAtEnd(() => queue.close());
  const returned = async (more: object) => {
    const { id = "" } = await queue.add("any", { parent_id: "shell", prompt: "say hello", ...more });
    return until(async () => (await queue.getJob(id))?.returnvalue);
  };
  const to = { agent_id: "reviewer", request_key: expect.any(String) };
  expect(await returned({ name: "Reviewer", keep_alive: true, reply: "return" })).toEqual({ ...to, run: 1 });
  const replies = stage.parent("shell").replies();
  expect((await replies.next()).value).toMatchObject({ agent_id: "reviewer", run: 1 });
  expect(await returned({ agent_id: "reviewer" })).toEqual({ ...to, run: 2 });
  expect((await replies.next()).value).toMatchObject({ agent_id: "reviewer", run: 2 });
});
