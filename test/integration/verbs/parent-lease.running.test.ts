/** Guarantee: a run whose agent follows its parent to the end is not waited for when the parent is gone. */
import { expect, test } from "vitest";
import { verbRig } from "./rig.ts";

test("a run ends with its parent if its agent is to be destroyed, and is asked to finish if it may", async () => {
  const rig = verbRig();
  const { keys, redis, store } = rig;
  const running = { destroy: await rig.running(), finish: await rig.running() };
  for (const [on_parent_gone, { agent }] of Object.entries(running))
    await redis.hset(keys.agent(agent).record, { on_parent_gone });
  const lapsed_at = (await rig.redisNow()) - 3_600_000;
  await redis.hset(keys.parent(rig.parent).lease, { held_until: 1, lapsed_at });
  expect((await store.overdue(running.destroy.agent)).status).toBe("parent_gone");
  expect((await store.overdue(running.finish.agent)).status).toBe("must_finish");
});
