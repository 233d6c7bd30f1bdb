/** Guarantee: what a run used is counted once, whoever ends it and however often that is asked for. */

import { expect, test } from "vitest";
import { RESERVATION_MS, TIMING } from "../../../src/shared/protocol/limits.ts";
import type { ReplyBody } from "../../../src/shared/protocol/reply.ts";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import { bodyOf, DESTROY, IDLE_END, questionsOf, type Rig, verbRig, wellDone } from "./rig.ts";

const DAY_MS = 86_400_000;
const spent: ReplyBody = {
  ...bodyOf('text with "turns":99,"usage":{} in it'),
  turns: 3,
  usage: {
    input_tokens: 7,
    output_tokens: 5,
    cache_read_input_tokens: 2_000_000_000,
    cache_creation_input_tokens: 1,
  },
  cost_usd: 0.0123456,
  output: { turns: 50, nested: [[], {}] },
};
const COUNTED = {
  replies: 1,
  turns: 3,
  tokens: 2_000_000_013,
  usage: spent.usage,
  cost_usd: 0.012346,
};
const used = (rig: Rig) => rig.store.usage(rig.parent, 0);

test("the settle of a run adds what it used, once, also when it is sent again", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  const settle = () => rig.store.settle(agent, { ...wellDone(epoch), ...partsOf(spent) });
  expect((await settle()).status).toBe("settled");
  expect((await settle()).status).toBe("same");
  expect((await rig.store.settle(agent, DESTROY)).status).toBe("same");
  expect(await used(rig)).toEqual(COUNTED);
});

test("what a run used is counted also when its words are cut within a character", async () => {
  const rig = verbRig();
  for (const endsItself of [true, false]) {
    const { agent, epoch } = await rig.running();
    const body = { ...spent, summary: "cut \ud83d" };
    await rig.readFirst(agent, epoch, partsOf(body));
    await rig.store.settle(agent, endsItself ? { ...wellDone(epoch), ...partsOf(body) } : DESTROY);
  }
  expect(await used(rig)).toMatchObject({
    replies: 2,
    turns: 2 * COUNTED.turns,
    cost_usd: 2 * COUNTED.cost_usd,
  });
});

test("a run that is destroyed counts with what it had committed; an idle agent's end counts nothing", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch, partsOf(spent));
  expect((await rig.store.settle(agent, DESTROY)).status).toBe("settled");
  expect((await rig.store.settle(agent, { ...wellDone(epoch), ...partsOf(spent) })).status).toBe("same");
  const idle = await rig.spawn({ idleMs: 1 });
  await rig.store.settle(idle, DESTROY);
  await rig.store.settle(idle, IDLE_END);
  expect(await used(rig)).toEqual(COUNTED);
});

test("a run that is destroyed while it waits for an answer, or for a worker, counts with what it had committed", async () => {
  const rig = verbRig();
  const { agent: asking, epoch } = await rig.running();
  await rig.store.ask(asking, { ...questionsOf(epoch), ...partsOf(spent) });
  await rig.store.settle(asking, DESTROY);
  expect(await used(rig)).toEqual(COUNTED);
  const released = await rig.running();
  await rig.readFirst(released.agent, released.epoch, partsOf(spent));
  await rig.store.release(released.agent, {
    epoch: released.epoch,
    delay_ms: 0,
    running_ms: 1,
    attempts: 0,
    breaks: 0,
  });
  await rig.store.settle(released.agent, DESTROY);
  expect(await used(rig)).toMatchObject({ replies: 2, turns: 2 * COUNTED.turns });
});

test("each run of an agent that stays is counted, by a worker whose epoch it was", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  const keep = { ...wellDone(epoch), target: "idle", idle_ms: 60_000, ...partsOf(spent) } as const;
  await rig.store.settle(agent, keep);
  await rig.store.settle(agent, { ...keep, epoch: epoch + 1 });
  expect(await used(rig)).toEqual(COUNTED);
});

test("days older than 90 are dropped when a new one begins, and younger ones kept", async () => {
  const rig = verbRig();
  const key = rig.keys.parent(rig.parent).usage;
  const [seconds] = await rig.redis.time();
  const today = Math.floor((Number(seconds) * 1_000) / DAY_MS);
  await rig.redis.hset(key, `${today - 90}/runs`, 1, `${today - 89}/runs`, 1);
  const { agent } = await rig.running();
  await rig.store.settle(agent, DESTROY);
  expect((await rig.redis.hkeys(key)).filter((field) => field.endsWith("/runs")).sort()).toEqual([
    `${today - 89}/runs`,
    `${today}/runs`,
  ]);
  const left = await rig.redis.pttl(key);
  expect(left).toBeGreaterThan(TIMING.usageTtlMs - 60_000);
});

test("a charged purchase is remembered beyond midnight, and neither a reader nor a new day meets the marks of others", async () => {
  const rig = verbRig();
  const { usage: key, charged } = rig.keys.parent(rig.parent);
  const { agent } = await rig.running();
  const { usage } = partsOf(spent).progress;
  const charge = async (purchase_id: string) =>
    (await rig.store.charge(agent, { purchase_id, bought: { usage, cost_usd: 0.5 } })).status;
  expect([await charge("p-1"), await charge("p-2")]).toEqual(["charged", "charged"]);
  expect((await rig.redis.hkeys(key)).filter((field) => !/^\d+\/[a-z_]+$/.test(field))).toEqual([]);
  await rig.redis.del(key);
  await rig.store.settle(agent, DESTROY);
  expect([await charge("p-1"), await charge("p-3")]).toEqual(["same", "charged"]);
  const days = (await rig.redis.pttl(charged("p-1"))) / DAY_MS;
  expect([days > 1, days <= RESERVATION_MS / DAY_MS]).toEqual([true, true]);
});

test("an answer is charged also if the key of the log that should hold it has another type", async () => {
  const rig = verbRig();
  const { agent } = await rig.running();
  await rig.redis.set(rig.keys.agent(agent).log, "of somebody else");
  const bought = { usage: partsOf(spent).progress.usage, cost_usd: 0.5 };
  const charge = { purchase_id: "p-1", bought, entry_key: "1", entry: "{}" };
  expect(await rig.store.charge(agent, charge)).toEqual({ status: "charged" });
});

test("a key of another type in the place of the counters keeps no run from its end, and stays", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  const { usage } = rig.keys.parent(rig.parent);
  await rig.redis.set(usage, "of somebody else");
  const settled = await rig.store.settle(agent, { ...wellDone(epoch), ...partsOf(spent) });
  expect(settled).toMatchObject({ status: "settled", agent_status: "ended" });
  expect(await rig.redis.get(usage)).toBe("of somebody else");
});

test("the counters of earlier days are looked at by the first run of a day alone", async () => {
  const rig = verbRig();
  const key = rig.keys.parent(rig.parent).usage;
  const settleOne = async () => rig.store.settle((await rig.running()).agent, DESTROY);
  await settleOne();
  await rig.redis.hset(key, "1/turns", 1);
  await settleOne();
  expect(await rig.redis.hexists(key, "1/turns")).toBe(1);
});
