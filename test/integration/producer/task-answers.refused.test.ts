/** Guarantee: a question leaves the channel only with its answer, also if its task ends while Redis refuses the answer. */
import { expect, test } from "vitest";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { latch } from "../../helpers/latch.ts";
import { started, testClient, testParent } from "../../helpers/parents.ts";
import { startPrivateRedis, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";
import { until } from "../../helpers/until.ts";
import { questionsOf } from "../verbs/rig.ts";

const address = { tenant: "default", parentId: "planner-7" };

test("a question whose answer Redis has not taken when its task ends stays in the channel", async () => {
  const { url: redisUrl } = await startPrivateRedis();
  const prefix = uniquePrefix();
  const parent = testParent(await started(testClient({ redisUrl, prefix })));
  const worker = scriptedWorker(redisUrl, prefix, address);
  const { redis, store } = worker;
  const fails = latch();
  const onQuestion = async ({ agent_id }: { agent_id: string }) => {
    if (agent_id === "failing") {
      await fails.opened;
      throw new Error("no answer to this one");
    }
    // With this the verb that answers begins to write.
    await redis.acl("SETUSER", "default", "-hset");
    return "blue";
  };
  const all = parent.taskAll(
    [
      { name: "failing", prompt: "go" },
      { name: "asker", prompt: "go" },
    ],
    { onQuestion },
  );
  all.catch(() => {});
  for (const name of ["failing", "asker"]) {
    const { uid, epoch } = await worker.claim(name);
    expect(await store.ask({ ...address, uid }, questionsOf(epoch))).toMatchObject({ status: "asked" });
  }
  const refusals = async () => {
    const [newest] = (await redis.acl("LOG")) as (string | number)[][];
    return Number(newest?.[1] ?? 0);
  };
  await until(async () => (await refusals()) > 0, { what: "an answer that is refused" });
  const before = await refusals();
  fails.open();
  await expect(all).rejects.toThrow("no answer to this one");
  await until(async () => (await refusals()) > before, { what: "the last try" });
  // What the client does about the last refusal goes out before these.
  await parent.list();
  await parent.list();
  const { replies } = keysUnder(prefix).parent(address);
  expect(await redis.xlen(replies)).toBe(2);
});
