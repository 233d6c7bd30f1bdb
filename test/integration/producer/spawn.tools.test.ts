/** Guarantee: an agent works without the tools that no worker has, as long as it has one. */
import { expect, test } from "vitest";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";

test("a spawn with one tool that a live worker has is accepted, and names those that none has", async () => {
  const prefix = uniquePrefix();
  const worker = scriptedWorker(redisUrl(), prefix, { tenant: "default", parentId: "planner-7" });
  const directory = createWorkerDirectory(worker.redis, keysUnder(prefix));
  await directory.announce({ id: "w1", tools: ["crm_lookup"], host: "h", version: "0.1.0", concurrency: 50 });
  closeAtEnd(() => directory.withdraw("w1"));
  const parent = testParent(testClient({ prefix }));
  const spawned = await parent.spawn({ name: "a", tools: ["crm_lookdown", "crm_lookup"] });
  expect(spawned.unknown_tools).toEqual(["crm_lookdown"]);
  await expect(parent.spawn({ name: "b", tools: ["crm_lookdown"] })).rejects.toMatchObject(
    refusal("invalid_input", /no worker has any of the tools crm_lookdown;/),
  );
});
