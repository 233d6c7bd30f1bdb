/** Guarantee: an agent without work is due when its idle time is over, and not before. */
import { expect, test } from "vitest";
import { handedBack, verbRig } from "./rig.ts";

const IDLE_MS = 60_000;

test("an agent that has replied and stays is due for its idle time's end", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  const end = { ...handedBack(epoch), known: 1, target: "idle", ended_reason: undefined } as const;
  const before = await rig.redisNow();
  expect(await rig.store.settle(agent, { ...end, idle_ms: IDLE_MS })).toMatchObject({ agent_status: "idle" });
  const deadline = Number((await rig.raw(agent)).deadline);
  expect(deadline).toBeGreaterThanOrEqual(before + IDLE_MS);
  expect(deadline).toBeLessThanOrEqual((await rig.redisNow()) + IDLE_MS);
});
