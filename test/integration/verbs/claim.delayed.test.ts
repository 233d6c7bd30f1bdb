/** Guarantee: a claim that comes too early tells whose time it is: that of a delayed agent, by its wake, or that of a lease. */
import { expect, test } from "vitest";
import { verbRig } from "./rig.ts";

test("a delayed agent is held with its wake and the time at which it is due, one with a holder without", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const claim = () => rig.store.claim(agent, { claim_id: "c-2", worker: "w" });
  expect(await claim()).toEqual({ status: "held", wait_ms: expect.any(Number) });
  await rig.store.release(agent, { epoch, delay_ms: 60_000 });
  const { wake, not_before } = await rig.raw(agent);
  expect(await claim()).toMatchObject({ status: "held", wake: Number(wake), due_at: Number(not_before) });
});
