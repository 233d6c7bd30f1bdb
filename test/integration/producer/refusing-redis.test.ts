/** What a parent does of a Redis that is its test's own: one that counts what it is asked, or refuses a command. */
import { expect, test } from "vitest";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { started, testClient, testParent } from "../../helpers/parents.ts";
import { startPrivateRedis, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";
import { until } from "../../helpers/until.ts";
import { questionsOf } from "../verbs/rig.ts";

const address = { tenant: "default", parentId: "planner-7" };

async function scene() {
  const { url: redisUrl } = await startPrivateRedis();
  const prefix = uniquePrefix();
  const parent = testParent(await started(testClient({ redisUrl, prefix })));
  return { parent, worker: scriptedWorker(redisUrl, prefix, address), keys: keysUnder(prefix) };
}

test("a parent without any room is not asked again before something ended", async () => {
  const { parent, worker } = await scene();
  for (let i = 0; i < 10; i++) await parent.spawn({ name: `idle ${i}` });
  const scripts = async () =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec(await worker.redis.info("commandstats"))?.[1]);
  const all = parent.taskAll(["late"]);
  const before = await scripts();
  for (let i = 0; i < 300; i++) await parent.list();
  expect((await scripts()) - before).toBeLessThan(30);
  await parent.destroy("idle_3");
  await until(async () => (await worker.queued()).length > 0);
  for (const agent of await worker.queued()) await worker.run(agent);
  expect((await all).map(({ summary }) => summary)).toEqual(["late"]);
});

test("a task answers again when Redis did not take the answer", async () => {
  const { parent, worker } = await scene();
  const { redis, store } = worker;
  const onQuestion = async () => {
    // With this the verb that answers begins to write.
    await redis.acl("SETUSER", "default", "-hset");
    return "blue";
  };
  const task = parent.task({ name: "asker", prompt: "go" }, { onQuestion });
  const { uid, epoch } = await worker.claim("asker");
  expect(await store.ask({ ...address, uid }, questionsOf(epoch))).toMatchObject({ status: "asked" });
  await until(async () => ((await redis.acl("LOG")) as unknown[]).length > 0);
  await redis.acl("SETUSER", "default", "+hset");
  await until(async () => (await store.record({ ...address, uid }))?.status === "queued");
  await parent.destroy("asker");
  expect(await task).toMatchObject({ stop_reason: "destroyed" });
});

test("a reply that could not be acked is handed over all the same, and the readers of the channel see it", async () => {
  const { parent, worker } = await scene();
  await parent.spawn({ name: "a" });
  await parent.send("a", "work");
  const waited = parent.waitAny(["a"]);
  const read = parent.replies().next();
  await until(async () => (await worker.queued()).includes("a"));
  await worker.redis.acl("SETUSER", "default", "-xdel");
  await worker.run("a", { summary: "done" });
  expect(await waited).toMatchObject({ summary: "done" });
  expect((await read).value).toMatchObject({ summary: "done" });
});

test("a key of another type is named as the reason, with what finds it", async () => {
  const { parent, worker, keys } = await scene();
  await parent.spawn({ name: "a" });
  const { live } = keys.parent(address);
  await worker.redis.del(live);
  await worker.redis.set(live, "of the wrong kind");
  const broken = {
    code: "redis_unavailable",
    message: expect.stringMatching(
      /^A key in Redis has a type that this product never writes there \(WRONGTYPE .*\): nothing was done; run subagent-queue doctor, which names it, put it right, and call again\.$/,
    ),
  };
  await expect(parent.list()).rejects.toMatchObject(broken);
  await expect(parent.spawn({ name: "b" })).rejects.toMatchObject(broken);
  await worker.redis.del(live);
  expect(await parent.list()).toEqual([]);
});
