/** Guarantee: a run is said to wait for its provider only while it does, and since when it has not advanced. */
import { expect, test } from "vitest";
import { viewOf } from "../../../src/shared/protocol/agent.ts";
import { answerEntry } from "../../../src/shared/protocol/log.ts";
import { questionsOf, verbRig } from "./rig.ts";

const FAILED = { running_ms: 1, attempts: 1, provider_wait: '{"provider":"p","reason":"overloaded"}' };

test("a run that was called early, or that goes on after an answer, does not wait for its provider any more", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const waits = async () => {
    const record = await rig.store.record(agent);
    return record && viewOf(record).provider_wait !== undefined;
  };
  await rig.store.release(agent, { ...FAILED, delay_ms: 60_000, epoch: await rig.claim(agent) });
  expect(await waits()).toBe(true);
  expect((await rig.store.promote(agent)).status).toBe("promoted");
  expect(await waits()).toBe(false);
  const { provider_wait_since: before } = await rig.raw(agent);
  await rig.store.ask(agent, questionsOf(await rig.claim(agent)));
  const answered = { authority: "parent", question_id: "1/a", entry: answerEntry("blue") } as const;
  expect((await rig.store.answer(agent, answered)).status).toBe("queued");
  expect(await waits()).toBe(false);
  await rig.redisReaches(Number(before) + 2);
  await rig.store.release(agent, { ...FAILED, delay_ms: 0, epoch: await rig.claim(agent) });
  expect(Number((await rig.raw(agent)).provider_wait_since)).toBeGreaterThan(Number(before));
});
