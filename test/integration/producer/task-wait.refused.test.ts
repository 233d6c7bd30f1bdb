/** Guarantee: a task that waited in vain for a worker says that its agent was destroyed only if it was. */
import { expect, test } from "vitest";
import { refusal, started, testClient, testParent } from "../../helpers/parents.ts";
import { startPrivateRedis, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";

const NOT_DESTROYED =
  /^No worker was live for 0 ms, and Redis did not confirm the end of the sub-agent "task", which may run later: destroy it, or call again with the same request_key to wait for it\.$/;

test("Redis refuses writes, so workers cannot announce themselves and nobody can be destroyed: the agents of a task and of a batch are said to go on", async () => {
  const { url: redisUrl } = await startPrivateRedis();
  const prefix = uniquePrefix();
  const parent = testParent(await started(testClient({ redisUrl, prefix })));
  const { redis } = scriptedWorker(redisUrl, prefix, { tenant: "default", parentId: "planner-7" });
  const task = parent.task("go", { wait_for_worker_ms: 0 });
  const batch = parent.taskAll(["one", "two"], { wait_for_worker_ms: 0 });
  const ends = Promise.allSettled([task, batch]);
  await task.started;
  while ((await parent.list()).length < 3);
  await redis.config("SET", "min-replicas-to-write", "1");
  const [alone, together] = await ends;
  await redis.config("SET", "min-replicas-to-write", "0");
  expect(await parent.list()).toHaveLength(3);
  expect(alone).toMatchObject({ status: "rejected", reason: refusal("no_worker", NOT_DESTROYED) });
  expect(together).toMatchObject({
    status: "rejected",
    reason: refusal(
      "no_worker",
      /Redis did not confirm .* Of the tasks before, 0 have replies .* and 2 go on/,
    ),
  });
});
