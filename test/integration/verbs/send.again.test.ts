/** A message that is sent again, after the agent has gone on. */

import { expect, test } from "vitest";
import { handedBack, verbRig } from "./rig.ts";

test("a message_id seen has the receipt and the run of the first time, also after a further run has begun", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.send(agent, "two", "m-2");
  await rig.readFirst(agent, epoch);
  await rig.store.settle(agent, { ...handedBack(epoch), target: "idle", idle_ms: 5_000 });
  expect(await rig.send(agent, "look", agent.uid)).toMatchObject({ receipt: "queued", run: 1, wake: 2 });
  expect(await rig.send(agent, "two", "m-2")).toMatchObject({ receipt: "delivered", run: 1, wake: 2 });
});
