/** Guarantee: a record names a holder, and a time before which no worker may claim it, only while these hold. */
import { expect, test } from "vitest";
import { viewOf } from "../../../src/shared/protocol/agent.ts";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import { answerEntry } from "../../../src/shared/protocol/log.ts";
import { handedBack, questionsOf, type Rig, verbRig } from "./rig.ts";

const HOLDER = ["claim_id", "lease_until"];
const holderOf = async (rig: Rig, agent: AgentAddress) =>
  Object.keys(await rig.raw(agent)).filter((name) => HOLDER.includes(name));

test("an agent names no holder while it waits for its parent, is queued again, or is idle", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  expect((await holderOf(rig, agent)).sort()).toEqual(HOLDER);
  expect((await rig.store.ask(agent, questionsOf(epoch, ["a"]))).status).toBe("asked");
  expect(await holderOf(rig, agent)).toEqual([]);
  const answered = { authority: "parent", question_id: "1/a", entry: answerEntry("blue") } as const;
  expect((await rig.store.answer(agent, answered)).status).toBe("queued");
  const hands = { delay_ms: 0, running_ms: 1, attempts: 0, breaks: 0 };
  await rig.store.release(agent, { ...hands, epoch: await rig.claim(agent) });
  expect(await holderOf(rig, agent)).toEqual([]);
  const last = await rig.claim(agent);
  await rig.store.finish(agent);
  await rig.readFirst(agent, last);
  const end = { ...handedBack(last), target: "idle", ended_reason: undefined } as const;
  expect((await rig.store.settle(agent, end)).status).toBe("settled");
  expect(await rig.raw(agent)).toMatchObject({ status: "idle" });
  expect(await holderOf(rig, agent)).toEqual([]);
  expect(await rig.raw(agent)).not.toHaveProperty("finish");
});

test("a run that was claimed when its provider's time had come does not wait for the provider after a question", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const failed = { running_ms: 1, attempts: 1, provider_wait: '{"provider":"p","reason":"overloaded"}' };
  await rig.store.release(agent, { ...failed, delay_ms: 0, epoch: await rig.claim(agent) });
  await rig.store.ask(agent, questionsOf(await rig.claim(agent), ["a"]));
  const answered = { authority: "parent", question_id: "1/a", entry: answerEntry("blue") } as const;
  expect((await rig.store.answer(agent, answered)).status).toBe("queued");
  const record = await rig.store.record(agent);
  expect(record && viewOf(record).provider_wait).toBeUndefined();
});
