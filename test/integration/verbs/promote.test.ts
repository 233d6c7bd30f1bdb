/** Guarantee: a run that waits for its provider can be woken before its delay is over, and no other one. */
import { expect, test } from "vitest";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import { wakeOf } from "../../../src/shared/protocol/keys.ts";
import { createWakeQueue, openWakeQueueForReading } from "../../../src/shared/redis/wake-queue.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { verbRig } from "./rig.ts";

const HAND_BACK = { delay_ms: 3_600_000, running_ms: 1, attempts: 1 };
const WAITS = { ...HAND_BACK, provider_wait: '{"provider":"p","reason":"overloaded"}' };

/** An agent whose run was handed back for an hour. */
async function handedBack(how: typeof HAND_BACK = WAITS) {
  const rig = verbRig();
  const agent = await rig.queued();
  const answer = await rig.store.release(agent, { ...how, epoch: await rig.claim(agent) });
  if (answer.status !== "released") return expect.unreachable();
  const claim = () => rig.store.claim(agent, { claim_id: newRequestKey(), worker: "w" });
  return { ...rig, agent, wake: answer.wake, claimed: async () => (await claim()).status };
}

test("a run that waits for its provider is free at once, and its wake stays the same", async () => {
  const { store, agent, wake, claimed, everything } = await handedBack();
  expect(await claimed()).toBe("held");
  expect(await store.promote(agent, {})).toEqual({ status: "promoted", wake });
  const stands = await everything();
  expect(await store.promote(agent, {})).toEqual({ status: "promoted", wake });
  expect(await everything()).toEqual(stands);
  expect(await claimed()).toBe("claimed");
  expect(await store.promote(agent, {})).toEqual({ status: "coming" });
});

test("a run that was handed back for another reason keeps its delay", async () => {
  const { store, agent, claimed } = await handedBack(HAND_BACK);
  expect(await store.promote(agent, {})).toEqual({ status: "coming" });
  expect(await claimed()).toBe("held");
});

test("an agent that is unknown or has ended is not woken", async () => {
  const rig = verbRig();
  expect(await rig.store.promote(rig.address(), {})).toEqual({ status: "gone" });
  const { agent, store } = await handedBack();
  await store.settle(agent, {
    authority: "parent",
    target: "ended",
    ended_reason: "destroyed",
    stop_reason: "destroyed",
    status: "cancelled",
  });
  expect(await store.promote(agent, {})).toEqual({ status: "gone" });
});

test("the job of a wake is in the line at once, and a job that is unknown or in the line already is left alone", async () => {
  const rig = verbRig();
  const [queue, jobs] = [
    createWakeQueue(rig.redis, rig.keys),
    await openWakeQueueForReading(rig.redis, rig.keys),
  ];
  closeAtEnd(() => jobs.close());
  closeAtEnd(() => queue.stop());
  const agent = await rig.queued();
  const wake = wakeOf(agent, "a", 2);
  await queue.promote(wake);
  await queue.add(wake, 3_600_000);
  expect([await queue.isAlive(wake), await queue.counts()]).toMatchObject([false, { delayed: 1 }]);
  await queue.promote(wake);
  await queue.promote(wake);
  expect([await queue.isAlive(wake), await queue.counts()]).toMatchObject([true, { delayed: 0, waiting: 1 }]);
});
