/** Guarantee: any number of tasks goes through a parent that may have ten, in order and without a busy loop. */
import { expect, test, vi } from "vitest";
import { z } from "zod";
import { internalsOf } from "../../../src/producer/client.ts";
import type { TaskInput } from "../../../src/producer/spawn-input.ts";
import { SubagentError } from "../../../src/shared/errors.ts";
import type { Reply } from "../../../src/shared/protocol/reply.ts";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { type ScriptedWorker, scriptedWorker } from "../../helpers/scripted-worker.ts";
import { until } from "../../helpers/until.ts";

const address = { tenant: "default", parentId: "planner-7" };

function scene() {
  const prefix = uniquePrefix();
  const worker = scriptedWorker(redisUrl(), prefix, address);
  const unacked = () => worker.redis.xlen(worker.store.keys.parent(address).replies);
  const client = testClient({ prefix });
  return { parent: testParent(client), worker, unacked, client };
}

/** Runs whatever is queued until `done`. */
async function work(worker: ScriptedWorker, done: Promise<unknown>): Promise<void> {
  let over = false;
  const end = () => {
    over = true;
  };
  done.then(end, end);
  await until(async () => {
    for (const agent of await worker.queued()) await worker.run(agent);
    return over;
  });
}

const prompts = (count: number) => Array.from({ length: count }, (_, i) => `prompt ${i}`);
const summaries = (replies: readonly Reply[]) => replies.map((reply) => reply.summary);

test("25 prompts come back in order, at most ten side by side, and nothing stays in the channel", async () => {
  const { parent, worker, unacked } = scene();
  const all = parent.taskAll(prompts(25));
  await until(async () => (await worker.queued()).length === 10);
  expect(await parent.list()).toHaveLength(10);
  await work(worker, all);
  expect(summaries(await all)).toEqual(prompts(25));
  await until(async () => (await unacked()) === 0);
});

test("a batch spawns no sub-agent for which it has no room: each task costs one spawn", async () => {
  const { parent, worker, client } = scene();
  const { store } = await internalsOf(client).open();
  const spawn = vi.spyOn(store, "spawn");
  const all = parent.taskAll(prompts(25));
  await work(worker, all);
  await all;
  expect(spawn).toHaveBeenCalledTimes(25);
});

test("two batches of one parent share its room: who finds none waits for an end", async () => {
  const { parent, worker } = scene();
  for (let i = 0; i < 4; i++) await parent.spawn({ name: `idle ${i}` });
  const both = Promise.all([parent.taskAll(prompts(12)), parent.taskAll(prompts(12))]);
  await work(worker, both);
  for (const replies of await both) expect(summaries(replies)).toEqual(prompts(12));
});

test("a parent without any room begins when an agent is destroyed", async () => {
  const { parent, worker } = scene();
  for (let i = 0; i < 10; i++) await parent.spawn({ name: `idle ${i}` });
  const all = parent.taskAll(["late"]);
  await parent.destroy("idle_3");
  await work(worker, all);
  expect(summaries(await all)).toEqual(["late"]);
});

test("one wrong task refuses all of them before any begins", async () => {
  const { parent } = scene();
  const wrong = parent.taskAll(["good", { prompt: "bad", limits: { max_turns: 31 } }]);
  await expect(wrong).rejects.toMatchObject(refusal("invalid_input"));
  await expect(parent.taskAll([])).rejects.toMatchObject(refusal("invalid_input"));
  const options = { onQuestion: "yes" } as object;
  await expect(parent.taskAll(["a"], options)).rejects.toMatchObject(refusal("invalid_input", /onQuestion/));
  expect(await parent.list()).toEqual([]);
});

test("a refusal says which of many tasks it is about", async () => {
  const { parent } = scene();
  const refused = async (bad: object | string) => {
    const inputs: (string | TaskInput)[] = prompts(50);
    return parent.taskAll(inputs.with(36, bad as TaskInput)).catch((error: unknown) => error);
  };
  expect(await refused({ prompt: "" })).toMatchObject({
    message: expect.stringMatching(/^inputs\[36\]: task refused, nothing was done: prompt: /),
    details: { index: 36, issues: [{ field: "36.prompt" }] },
  });
  expect(await refused({ prompt: "bad", limits: { max_turns: 99 } })).toMatchObject({
    details: { index: 36, issues: [{ field: "36.limits.max_turns" }] },
  });
  expect(await refused({ prompt: "bad", output_schema: z.date() })).toMatchObject({
    details: { issues: [{ field: "36.output_schema" }] },
  });
  expect(await refused(Object(7))).toMatchObject({ details: { index: 36 } });
  expect(await parent.list()).toEqual([]);
});

test("a task that is refused at its spawn is named as well", async () => {
  const { parent, worker } = scene();
  const directory = createWorkerDirectory(worker.redis, worker.store.keys);
  await directory.announce({ id: "w1", tools: [], host: "h", version: "0.1.0", concurrency: 50 });
  closeAtEnd(() => directory.withdraw("w1"));
  const all = parent.taskAll(["good", { prompt: "bad", tools: ["teleport"] }]);
  await expect(all).rejects.toMatchObject({
    ...refusal("invalid_input", /^inputs\[1\]: .*teleport/),
    details: { index: 1 },
  });
});

test("aborting destroys what runs, begins nothing more and rejects with the reason", async () => {
  const { parent, worker, unacked } = scene();
  const abort = new AbortController();
  const all = parent.taskAll(prompts(15), { signal: abort.signal });
  await until(async () => (await worker.queued()).length === 10);
  abort.abort("enough");
  await expect(all).rejects.toBe("enough");
  expect(await parent.list()).toEqual([]);
  await until(async () => (await unacked()) === 0);
});

test("a batch that is aborted with an error of this package says nothing of tasks that go on: none does", async () => {
  const { parent, worker } = scene();
  const abort = new AbortController();
  const all = parent.taskAll(prompts(2), { signal: abort.signal });
  await until(async () => (await worker.queued()).length === 2);
  abort.abort(new SubagentError("closed", "enough"));
  await expect(all).rejects.toMatchObject({ code: "closed", message: "enough" });
  await until(async () => (await parent.list()).length === 0);
});

test("aborting a batch that waits for room begins nothing and leaves no ear at the doorbell", async () => {
  const { parent, worker } = scene();
  for (let i = 0; i < 10; i++) await parent.spawn({ name: `idle ${i}` });
  const ears = async () => {
    const { doorbell } = worker.store.keys.parent(address);
    const [, count] = await worker.redis.pubsub("NUMSUB", doorbell);
    return Number(count);
  };
  const abort = new AbortController();
  const all = parent.taskAll(["late"], { signal: abort.signal });
  await until(async () => (await ears()) > 0);
  abort.abort("enough");
  await expect(all).rejects.toBe("enough");
  await parent.destroy("idle_3");
  expect(await parent.list()).toHaveLength(9);
});

test("a batch that is over leaves no ear at the doorbell", async () => {
  const { parent, worker } = scene();
  const all = parent.taskAll(["one"]);
  await work(worker, all);
  await all;
  const { doorbell } = worker.store.keys.parent(address);
  await until(async () => Number((await worker.redis.pubsub("NUMSUB", doorbell))[1]) === 0);
});

test("after a failure the replies in hand stand in the error, and those that come later in the channel", async () => {
  const { parent, worker, unacked } = scene();
  const [taken, other] = [
    { prompt: "a", name: "a" },
    { prompt: "b", name: "b" },
  ];
  const all = parent.taskAll([taken, other]);
  all.catch(() => {});
  await worker.run("a");
  await until(async () => (await unacked()) === 0);
  await parent.stop();
  await expect(all).rejects.toMatchObject({ code: "closed", details: { replies: [{ summary: "a" }] } });
  await worker.run("b");
  expect(await unacked()).toBe(1);
});
