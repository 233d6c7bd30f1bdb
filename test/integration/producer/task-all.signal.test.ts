/** Guarantee: a batch that is over, or was refused, listens to its caller's signal no more. */
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";

test("a batch listens to its signal no more when it is over, or when an input is refused", async () => {
  const prefix = uniquePrefix();
  const worker = scriptedWorker(redisUrl(), prefix, { tenant: "default", parentId: "planner-7" });
  const parent = testParent(testClient({ prefix }));
  const { signal } = new AbortController();
  const replies = parent.taskAll(["one", "two"], { signal });
  await worker.run("task");
  await worker.run("task_2");
  expect(await replies).toHaveLength(2);
  expect(getEventListeners(signal, "abort")).toEqual([]);
  await expect(parent.taskAll(["three", ""], { signal })).rejects.toMatchObject({ code: "invalid_input" });
  expect(getEventListeners(signal, "abort")).toEqual([]);
});
