/** Guarantee: what a task's agent says on the way reaches the readers of the channel at once, not after its reply. */
import { expect, test } from "vitest";
import { testClient, testParent } from "../../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";

const address = { tenant: "default", parentId: "planner-7" };

test.for([
  ["leaves questions to the default", {}],
  ["answers questions", { onQuestion: () => "blue" }],
] as const)("where its caller %s", async ([, options]) => {
  const prefix = uniquePrefix();
  const parent = testParent(testClient({ prefix }));
  const worker = scriptedWorker(redisUrl(), prefix, address);
  const next = parent.replies().next();
  const reply = parent.task({ prompt: "go", ...options });
  const { uid, epoch } = await worker.claim("task");
  await worker.store.append(
    { ...address, uid },
    {
      epoch,
      known: 0,
      running_ms: 0,
      entries: [["1", "{}"]],
      interim_id: `${uid}.i`,
      interim: "a word",
    },
  );
  await parent.spawn({ name: "other" });
  await parent.destroy("other");
  expect((await next).value).toMatchObject({ kind: "message", agent_id: "task", text: "a word" });
  await parent.destroy("task");
  expect(await reply).toMatchObject({ kind: "ended", status: "cancelled" });
});
