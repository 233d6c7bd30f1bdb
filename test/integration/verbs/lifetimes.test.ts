/** Guarantee: what a parent and its agents leave in Redis goes by itself, each key after its time, and what is in use does not. */
import { expect, test } from "vitest";
import { budgetsOf, createBudgetBook } from "../../../src/shared/redis/budget.ts";
import { DESTROY, handedBack, type Rig, verbRig } from "./rig.ts";

const DAY_MS = 24 * 3_600_000;

/** Days that each key below the parent's has left, by the end of its name; an agent's uid and a request key are left out. */
async function daysLeft(rig: Rig): Promise<Record<string, number>> {
  const left: Record<string, number> = {};
  for (const key of Object.keys(await rig.everything())) {
    const name = key.split("}:")[1]?.replace(/:?(sa-)?[0-9a-f]{24}(\.1)?/g, "") ?? key;
    left[name] = Math.ceil(Math.max(0, await rig.redis.pttl(key)) / DAY_MS);
  }
  return left;
}

/** As if the parent had been quiet since: everything is about to go. */
async function hasAged(rig: Rig): Promise<void> {
  for (const key of Object.keys(await rig.everything()))
    if ((await rig.redis.pttl(key)) > 0) await rig.redis.pexpire(key, 3_600_000);
}

const LIVE = { agent: 0, "agent:life": 0, live: 0 };

test("what an agent leaves at its end goes by itself, and sooner once that is acked", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch, { events: "{}", run: 1, summary: "wh", whole_text: "whole" });
  await hasAged(rig);
  const { summary: _, ...ended } = handedBack(epoch);
  await rig.store.settle(agent, { ...ended, known: 1, events: "{}" });
  const [entry] = await rig.replies.read(rig.parent, "0", 100);
  const ofParent = { history: 1, registry: 30, replies: 7, usage: 90 };
  const asked = { "agent:message": 1, request: 1 };
  const ofAgent = { agent: 7, "agent:timeline": 7, "agent:transcript": 7, text: 7 };
  expect(await daysLeft(rig)).toEqual({ ...ofParent, ...asked, ...ofAgent });
  await rig.replies.ack(rig.parent, entry ?? expect.unreachable(), "r");
  const kept = { agent: 1, "agent:timeline": 1, text: 1, timelines: 1 };
  expect(await daysLeft(rig)).toEqual({ ...ofParent, ...asked, ...kept });
});

test("the record of an ended agent keeps nothing of what it waited for", async () => {
  const rig = verbRig();
  const asking = await rig.waiting();
  const failing = await rig.running();
  const wait = { provider_wait: '{"reason":"overloaded"}', running_ms: 1, attempts: 1, breaks: 0 };
  await rig.store.release(failing.agent, { epoch: failing.epoch, delay_ms: 60_000, ...wait });
  const waits = async ({ agent }: typeof asking) =>
    Object.keys(await rig.raw(agent)).filter((field) => /question|provider|not_before/.test(field));
  expect(await waits(asking)).toEqual(["questions"]);
  expect((await waits(failing)).sort()).toEqual(["not_before", "provider_wait", "provider_wait_since"]);
  for (const held of [asking, failing]) {
    await rig.store.settle(held.agent, DESTROY);
    expect(await waits(held)).toEqual([]);
  }
});

test("the names of a parent stay as long as it spawns, sends, or has agents that end", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  expect(await daysLeft(rig)).toEqual({ ...LIVE, "agent:life": 1, registry: 30, request: 1 });
  for (const use of [() => rig.spawn(), () => rig.send(agent, "look")]) {
    await hasAged(rig);
    expect((await daysLeft(rig)).registry).toBe(1);
    await use();
    expect((await daysLeft(rig)).registry).toBe(30);
  }
});

test("the lease of a parent that nothing holds any more goes a day later", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  await rig.store.hold(agent, { parent_lease_ms: 60_000 });
  const { lease } = rig.keys.parent(rig.parent);
  expect(await rig.redis.pttl(lease)).toBeGreaterThan(DAY_MS + 30_000);
  expect(await rig.redis.pttl(lease)).toBeLessThanOrEqual(DAY_MS + 60_000);
  await rig.redis.hset(lease, { held_until: 1 });
  await rig.redis.persist(lease);
  await rig.store.orphans(agent);
  expect(await rig.redis.pttl(lease)).toBeGreaterThan(DAY_MS - 60_000);
});

test("a budget goes when nothing was taken out of it for a month, and what a lost call had reserved before that", async () => {
  const { redis, keys, store, everything } = verbRig();
  const book = createBudgetBook(redis, keys, store.timing);
  await book.reserve(
    [{ name: "team", of: "tenant" as const, maxTokens: 1_000 }],
    "call.1",
    { tokens: 10, costUsd: 0 },
    false,
  );
  const left = Object.keys(await everything());
  expect(left).toHaveLength(2);
  for (const key of left) {
    const days = Math.ceil((await redis.pttl(key)) / DAY_MS);
    if (key === keys.budget("team")) expect(days).toBe(30);
    else expect([1, 2], key).toContain(days);
  }
});

test("the budget of one agent goes a week after its last call, which no agent outlives", async () => {
  const { redis, keys, store, address } = verbRig();
  const book = createBudgetBook(redis, keys, store.timing);
  const budgets = { agent: { max_total_tokens: 1_000 }, parent: { max_total_tokens: 1_000 } };
  const bound = budgetsOf(address(), budgets);
  await book.reserve(bound, "call.1", { tokens: 10, costUsd: 0 }, false);
  const days = bound.map(async ({ name }) => Math.ceil((await redis.pttl(keys.budget(name))) / DAY_MS));
  expect(await Promise.all(days)).toEqual([7, 30]);
});
