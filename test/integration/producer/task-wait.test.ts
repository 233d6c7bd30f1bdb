/** Guarantee: a task never waits in silence for a worker, a tool or a provider. */
import { expect, test } from "vitest";
import type { ClientOptions } from "../../../src/producer/client-resources.ts";
import type { TaskWait } from "../../../src/producer/task-wait-reasons.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { createPause } from "../../../src/shared/redis/pause.ts";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { freePort } from "../../helpers/redis-server.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const SAID_WITHIN_MS = 5_000;
/** Shorter than a call may take: none is over before Redis could answer. */
const STEP_MS = 200;

/** A client without live workers, and what it logs. */
function scene(more: Pick<ClientOptions, "clock"> = {}) {
  const prefix = uniquePrefix();
  const logged: string[] = [];
  const logger = createLogger({ level: "warn", destination: { write: (line) => void logged.push(line) } });
  const parent = testParent(testClient({ prefix, logger, ...more }));
  const worker = scriptedWorker(redisUrl(), prefix, { tenant: "default", parentId: "planner-7" });
  return { parent, worker, logged, directory: createWorkerDirectory(worker.redis, worker.store.keys) };
}

const announced = {
  ...{ id: "w1", host: "here", version: "0.1.0" },
  ...{ tools: [], concurrency: 1 },
};

test("a task without a live worker says so within 5 s, once, and not any more when one has come", async () => {
  const clock = handClock();
  const { parent, worker, logged, directory } = scene({ clock });
  const waits: (TaskWait | undefined)[] = [];
  const heard = parent.task("heard", { onWait: (wait) => waits.push(wait) });
  const task = parent.task("unheard");
  await Promise.all([heard.started, task.started]);
  /** What was asked of Redis before this was answered is answered when a list is. */
  const pass = async (ms: number) => {
    clock.advance(ms);
    await parent.list();
  };
  for (let ms = 0; ms < SAID_WITHIN_MS; ms += STEP_MS) await pass(STEP_MS);
  expect(task.waits).toEqual({ for: "worker", since: expect.stringMatching(/Z$/) });
  await directory.announce(announced);
  for (let ms = 0; ms < SAID_WITHIN_MS; ms += STEP_MS) await pass(STEP_MS);
  expect(task.waits).toBeUndefined();
  expect(waits).toEqual([expect.objectContaining({ for: "worker" }), undefined]);
  expect(logged.filter((line) => line.includes("No worker is live"))).toHaveLength(1);
  await worker.run("task");
  await worker.run("task_2");
  await Promise.all([heard, task]);
});

test("tasks of a paused installation wait for its resume, whatever else they wait for, and say why", async () => {
  const clock = handClock();
  const { parent, worker, directory } = scene({ clock });
  const pause = createPause(worker.redis, worker.store.keys);
  await directory.announce(announced);
  await pause.begin("the budget is spent");
  const waits: (TaskWait | undefined)[] = [];
  const task = parent.task("go", { onWait: (wait) => waits.push(wait) });
  await task.started;
  const pass = async () => {
    for (let ms = 0; ms < SAID_WITHIN_MS; ms += STEP_MS) {
      clock.advance(STEP_MS);
      await parent.list();
    }
  };
  await pass();
  expect(task.waits).toEqual({
    for: "resume",
    since: expect.stringMatching(/Z$/),
    reason: "the budget is spent",
  });
  await pause.resume();
  await pause.begin();
  await pass();
  expect(task.waits).toEqual({ for: "resume", since: expect.stringMatching(/Z$/) });
  await pause.resume();
  await pass();
  expect(waits.map((wait) => wait?.for)).toEqual(["resume", "resume", undefined]);
  await worker.run("task");
  await task;
});

test("a task that may not wait for a worker rejects with no_worker and leaves no agent and no entry", async () => {
  const { parent, worker } = scene();
  await expect(parent.task("go", { wait_for_worker_ms: 100 })).rejects.toMatchObject(
    refusal("no_worker", /^No worker was live for 100 ms, and the sub-agent was destroyed: start one/),
  );
  expect(await parent.list()).toEqual([]);
  await until(
    async () =>
      (await worker.redis.xlen(
        worker.store.keys.parent({ tenant: "default", parentId: "planner-7" }).replies,
      )) === 0,
  );
});

test("a task whose run a worker holds goes on though no worker is announced, until its lease is over", async () => {
  const clock = handClock();
  const { parent, worker } = scene({ clock });
  const task = parent.task("go", { wait_for_worker_ms: 0 });
  task.catch(() => {});
  const { agent_id } = await task.started;
  const { uid } = await worker.claim(agent_id);
  const pass = async () => {
    for (let ms = 0; ms < SAID_WITHIN_MS; ms += STEP_MS) {
      clock.advance(STEP_MS);
      await parent.list();
    }
  };
  await pass();
  expect(task.waits).toMatchObject({ for: "worker" });
  expect(await parent.get(agent_id)).toMatchObject({ status: "running" });
  const { record } = worker.store.keys.agent({ tenant: "default", parentId: "planner-7", uid });
  await worker.redis.hset(record, "lease_until", "1");
  await pass();
  expect(await parent.get(agent_id)).toMatchObject({ status: "ended", ended_reason: "destroyed" });
  await expect(task).rejects.toMatchObject(refusal("no_worker"));
});

test("waiting for a worker ends for all tasks of a batch", async () => {
  const { parent } = scene();
  const batch = parent.taskAll(["a", "b"], { wait_for_worker_ms: 0 });
  await expect(batch).rejects.toMatchObject(refusal("no_worker", /^((?!Of the tasks before).)*$/));
  await until(async () => (await parent.list()).length === 0);
});

test("a provider that cannot be reached is named, since when and until the next try, by task and get", async () => {
  const stage = await openStage();
  const port = await freePort();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: `http://127.0.0.1:${port}` });
  closeAtEnd(() => model.stop());
  await stage.startWorker({ model, random: () => 0.99 });
  const parent = stage.parent();
  const task = parent.task({ prompt: "go", name: "t" });
  await until(() => task.waits?.for === "provider");
  const first = task.waits as Extract<TaskWait, { for: "provider" }>;
  expect(first).toMatchObject({ provider: `127.0.0.1:${port}`, reason: "network" });
  expect(Date.parse(first.next_try_at)).toBeGreaterThan(Date.parse(first.since));
  const seen = await until(async () => (await parent.get("t")).provider_wait);
  expect(seen).toMatchObject({ provider: `127.0.0.1:${port}`, reason: "network", since: first.since });
  await parent.destroy("t");
  expect((await task).stop_reason).toBe("destroyed");
  expect((await parent.get("t")).provider_wait).toBeUndefined();
});
