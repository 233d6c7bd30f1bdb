/** A reply that a door has waited for, and did not show to its client, stays for the other readers of the process. */
import { expect, test } from "vitest";
import { createParent } from "../../../src/producer/parent.ts";
import { newThreadId, openThread } from "../../../src/service/agent-protocol/thread.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { startApi } from "../../helpers/api.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const CHECKED_AGAIN_MS = 15_000;
const parentId = "planner-7";

test("a task whose key was revoked while it waited", async () => {
  const stage = await openStage();
  const [client, clock] = [stage.client(), handClock()];
  const api = await startApi({ client, clock });
  const keys = createApiKeys(stage.redis, stage.keys);
  const { token, key_id } = await keys.create({ tenant: "default", name: "k", scope: "spawn" });
  const body = { prompt: "go" };
  const answer = api.ask("POST", `/v1/parents/${parentId}/tasks?wait=300`, { token, body });
  const worker = stage.scriptedWorker();
  await worker.uidOf("task");
  await keys.revoke(key_id);
  clock.advance(CHECKED_AGAIN_MS);
  await worker.run("task");
  expect((await answer).status).toBe(401);
  const { newReplies } = createParent({ client, parentId });
  await until(async () => (await newReplies()).entries.length === 1, { timeoutMs: 20_000 });
});

test("a run of a thread that was waited for, and whose state was not read", async () => {
  const stage = await openStage();
  const client = stage.client();
  const thread = openThread(client, "default", parentId, newThreadId());
  const { run_id } = await thread.begin({ assistantId: "researcher", text: "go" });
  const end = thread.wait(run_id, new AbortController().signal);
  await stage.scriptedWorker().run("researcher");
  expect(await end).toEqual({ status: "success" });
  const { entries } = await createParent({ client, parentId }).newReplies();
  expect(entries).toMatchObject([{ agent_id: "researcher" }]);
});

test("an ack of several replies takes those that can be read, whatever stands in the record of another", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client() });
  const [parent, worker] = [stage.parent(parentId), stage.scriptedWorker(parentId)];
  const ids: string[] = [];
  for (const name of ["broken", "sound"]) {
    const { agent_id } = await parent.spawn({ name, keep_alive: true });
    await parent.send(agent_id, "go");
    await worker.run(agent_id, { keepAlive: true });
    ids.push(`${await worker.uidOf(agent_id)}.1`);
  }
  const uid = await worker.uidOf("broken");
  const { record } = stage.keys.agent({ tenant: "default", parentId, uid });
  await stage.redis.hset(record, "status", "unheard-of");
  const { status, body } = await api.ask("POST", `/v1/parents/${parentId}/replies/ack`, {
    body: { reply_ids: ids },
  });
  expect([status, body.acked]).toEqual([200, expect.arrayContaining([ids[1]])]);
});
