/** Guarantee: what a run used is counted once, whoever ends it and however often that is asked for. */

import { expect, test } from "vitest";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import type { ReplyBody } from "../../../src/shared/protocol/reply.ts";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import { bodyOf, DESTROY, IDLE_END, type Rig, verbRig, wellDone } from "./rig.ts";

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

test("the counters of earlier days are looked at by the first run of a day alone", async () => {
  const rig = verbRig();
  const key = rig.keys.parent(rig.parent).usage;
  const settleOne = async () => rig.store.settle((await rig.running()).agent, DESTROY);
  await settleOne();
  await rig.redis.hset(key, "1/turns", 1);
  await settleOne();
  expect(await rig.redis.hexists(key, "1/turns")).toBe(1);
});
