/** The age of a message that the end of a run leaves unread, where the same step consumed an earlier one. */
import { expect, test } from "vitest";
import { handedBack, verbRig } from "./rig.ts";

test("a message that a run leaves unread does not age with one that its last commit consumed", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  await rig.redis.hset(rig.keys.agent(agent).record, "inbox_since", "1");
  const epoch = await rig.claim(agent);
  const sentAt = await rig.redisNow();
  await rig.send(agent, "one more thing", "m-2");
  const end = { ...handedBack(epoch), target: "idle", ended_reason: undefined, idle_ms: 60_000 } as const;
  const read = { entries: [["0", "{}"]] as const, consume_to: 1, consume_last: agent.uid };
  expect(await rig.store.settle(agent, { ...end, ...read })).toMatchObject({ agent_status: "queued" });
  expect(Number((await rig.raw(agent)).unanswered_since)).toBeGreaterThanOrEqual(sentAt);
});

test("a message that a run leaves unread ages from its own time where the last commit consumed none", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.redis.hset(rig.keys.agent(agent).record, "inbox_since", "7");
  const end = { ...handedBack(epoch), target: "idle", ended_reason: undefined, idle_ms: 60_000 } as const;
  expect(await rig.store.settle(agent, end)).toMatchObject({ agent_status: "queued" });
  expect((await rig.raw(agent)).unanswered_since).toBe("7");
});
