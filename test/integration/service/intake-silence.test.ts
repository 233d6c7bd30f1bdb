/** The intake goes on over new connections when the other side of its connections is gone without a word. */
import { Queue } from "bullmq";
import { expect, test } from "vitest";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("entries and jobs are handed over again although no connection of the intake has ended", async () => {
  const stage = await openStage({ redis: "own", proxied: true });
  const { url: redisUrl, prefix, keys, redis, server } = stage;
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl, prefix, client: stage.client(), logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
  const connection = openRedis(server.url, "worker");
  closeAtEnd(() => closeRedis(connection));
  const queue = new Queue(keys.intakeQueue, { connection, prefix: keys.bullPrefix });
  closeAtEnd(() => queue.close());
  const askFor = async (name: string) => {
    await redis.xadd(keys.intake, "*", "parent_id", "p", "name", `${name} entry`, "prompt", "look");
    await queue.add("task", { parent_id: "p", name: `${name} job`, prompt: "look", reply: "channel" });
  };
  const parent = stage.parent("p", { client: stage.client({ redisUrl: server.url }) });
  const begun = async () => (await parent.list()).map(({ agent_id }) => agent_id).sort();
  await askFor("first");
  const before = ["first_entry", "first_job"];
  await until(async () => (await begun()).length === before.length);
  stage.proxy.strand();
  await askFor("second");
  const all = [...before, "second_entry", "second_job"];
  await until(async () => (await begun()).length === all.length);
  expect(await begun()).toEqual(all);
});
