/** Guarantee: a counter of what a parent spent that is no number keeps no run from its end, and starts again. */
import { expect, test } from "vitest";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import { bodyOf, verbRig, wellDone } from "./rig.ts";

test("a counter that is no number starts again with the run that finds it, and the next run adds to it", async () => {
  const rig = verbRig();
  const end = async () => {
    const { agent, epoch } = await rig.running();
    await rig.readFirst(agent, epoch);
    const ended = await rig.store.settle(agent, {
      ...wellDone(epoch),
      ...partsOf({ ...bodyOf("done"), turns: 3 }),
    });
    expect(ended.status).toBe("settled");
    return (await rig.store.usage(rig.parent, 0)).turns;
  };
  expect(await end()).toBe(3);
  const { usage } = rig.keys.parent(rig.parent);
  const [today] = (await rig.redis.hkeys(usage)).filter((field) => field.endsWith("/turns"));
  await rig.redis.hset(usage, today ?? "", "many");
  expect(await end()).toBe(3);
  expect(await end()).toBe(6);
});
