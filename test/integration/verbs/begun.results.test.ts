/** Guarantee: the call that a claim announces is over when its holder commits something else first: no later claim charges it. */
import { expect, test } from "vitest";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import { verbRig } from "./rig.ts";

test("a worker that dies in tools which it makes again leaves no model call behind that was begun", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const results = { known: 0, running_ms: 1, advances: true, entries: [["1/a/result", "{}"]] } as const;
  const next = async () => {
    await rig.redis.hset(rig.keys.agent(agent).record, "lease_until", "0");
    return rig.store.claim(agent, { claim_id: newRequestKey(), worker: "w" });
  };
  expect((await rig.store.append(agent, { ...results, epoch })).status).toBe("appended");
  const second = await next();
  if (second.status !== "claimed") return expect.unreachable();
  expect(second.lost_call).toBeUndefined();
  expect((await rig.store.append(agent, { ...results, epoch: second.epoch })).status).toBe("same");
  expect(await next()).toMatchObject({ status: "claimed", lost_call: undefined });
});
