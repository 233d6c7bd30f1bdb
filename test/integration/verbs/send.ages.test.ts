/** What becomes of a message's age, and of a message that outlives its agent. */
import { expect, test } from "vitest";
import { handedBack, verbRig } from "./rig.ts";

test("a message that comes to a run which has read all others ages from when it came, if the run leaves it", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  await rig.redisReaches((await rig.redisNow()) + 2);
  const sentAt = await rig.redisNow();
  await rig.send(agent, "one more thing", "m-2");
  await rig.redisReaches((await rig.redisNow()) + 2);
  const secondAt = await rig.redisNow();
  await rig.send(agent, "and another", "m-3");
  const end = { ...handedBack(epoch), known: 1, target: "idle", ended_reason: undefined } as const;
  expect(await rig.store.settle(agent, end)).toMatchObject({ agent_status: "queued" });
  const since = Number((await rig.raw(agent)).unanswered_since);
  expect(since).toBeGreaterThanOrEqual(sentAt);
  expect(since).toBeLessThan(secondAt);
});

test("a message to an agent of which nothing is left is unknown, also if it was accepted once", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  await rig.redis.del(rig.keys.agent(agent).record);
  const before = await rig.everything();
  expect(await rig.send(agent, "look", agent.uid)).toEqual({ status: "unknown" });
  expect(await rig.everything()).toEqual(before);
});
