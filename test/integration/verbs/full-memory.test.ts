import { expect, test } from "vitest";
import { answerEntry } from "../../../src/shared/protocol/log.ts";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import { startPrivateRedis } from "../../helpers/redis.ts";
import { bodyOf, DESTROY, handedBack, questionsOf, type Rig, verbRig, wellDone } from "./rig.ts";

/** A rig on a server that has no memory left after `prepare`. */
async function fullAfter<T>(prepare: (rig: Rig) => Promise<T>): Promise<{ rig: Rig; prepared: T }> {
  const server = await startPrivateRedis();
  const rig = verbRig({ url: server.url });
  const prepared = await prepare(rig);
  await rig.redis.config("SET", "maxmemory", "1");
  return { rig, prepared };
}

test("when Redis is full spawns and sends are refused and leave nothing behind", async () => {
  const { rig, prepared: agent } = await fullAfter((rig) => rig.spawn());
  const before = await rig.everything();
  await expect(rig.spawn()).rejects.toThrow("OOM");
  await expect(rig.send(agent, "look")).rejects.toThrow("OOM");
  expect(await rig.everything()).toEqual(before);
});

test("when Redis is full runs in progress still renew, commit, ask, hand back and end, and their replies are acked", async () => {
  const { rig, prepared } = await fullAfter(async (rig) => ({
    ending: await rig.running(),
    staying: await rig.running(),
    leaving: await rig.running(),
    asking: await rig.running(),
    destroyed: await rig.queued(),
  }));
  const { ending, staying, leaving, asking, destroyed } = prepared;
  for (const { agent, epoch } of [ending, staying]) {
    expect(await rig.store.renew(agent, { epoch, running_ms: 1 })).toMatchObject({ status: "ok" });
    expect(
      await rig.readFirst(agent, epoch, {
        ...partsOf(bodyOf("p")),
        advances: true,
        interim_id: `i-${agent.uid}`,
        interim: "b",
      }),
    ).toMatchObject({ status: "appended" });
  }
  expect(await rig.store.settle(ending.agent, handedBack(ending.epoch))).toMatchObject({ status: "settled" });
  expect(
    await rig.store.settle(staying.agent, { ...wellDone(staying.epoch), target: "idle", idle_ms: 60_000 }),
  ).toMatchObject({ agent_status: "idle" });
  const handBack = { epoch: leaving.epoch, delay_ms: 0, running_ms: 1, attempts: 0 };
  expect(await rig.store.release(leaving.agent, handBack)).toMatchObject({ status: "released" });
  const asked = await rig.store.ask(asking.agent, questionsOf(asking.epoch));
  expect(asked).toMatchObject({ status: "asked" });
  const answer = { authority: "parent" as const, question_id: "1/a", entry: answerEntry("yes") };
  expect(await rig.store.answer(asking.agent, answer)).toMatchObject({ status: "queued" });
  expect(await rig.store.settle(destroyed, DESTROY)).toMatchObject({ status: "settled" });
  const entries = await rig.replies.read(rig.parent, "0", 10);
  expect(entries).toHaveLength(6);
  for (const entry of entries) expect(await rig.replies.ack(rig.parent, entry, "t")).toBe(true);
  await rig.redis.config("SET", "maxmemory", "0");
  expect(await rig.claim(leaving.agent)).toBeGreaterThan(leaving.epoch);
});
