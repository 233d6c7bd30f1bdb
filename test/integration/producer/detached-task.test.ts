/** Guarantee: the second call of a detached task returns the reply, whoever has acked it before. */
import { expect, test } from "vitest";
import { beginTask, waitForTask } from "../../../src/producer/detached-task.ts";
import { testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";

test("a detached task resolves to its reply, also if another reader acked it before the wait", async () => {
  const prefix = uniquePrefix();
  const worker = scriptedWorker(redisUrl(), prefix, { tenant: "default", parentId: "planner-7" });
  const parent = testParent(testClient({ prefix }));
  const begun = await beginTask(parent, { prompt: "work", request_key: "once" });
  await worker.run("task");
  const news = await parent.newReplies({ timeout_ms: 10_000 });
  expect(news.entries).toMatchObject([{ kind: "reply", summary: "work" }]);
  await news.ack();
  const { reply } = await waitForTask(parent, begun, new AbortController().signal);
  expect(reply).toEqual(news.entries[0]);
});
