/** Guarantee: at most one process has the slot to push for a parent, none is lost with a process, and no entry is heard of in vain. */
import { expect, test } from "vitest";
import { keysUnder, type ParentAddress, parentMember } from "../../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { redisNowMs } from "../../../src/shared/redis/redis-time.ts";
import { createWebhookSlots, type PushLease } from "../../../src/shared/redis/webhook-slot.ts";
import { createWebhooks, nextTryMsOf } from "../../../src/shared/redis/webhooks.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { DESTROY, verbRig } from "./rig.ts";

const A: PushLease = { token: "a", ms: 60_000 };
const B: PushLease = { token: "b", ms: 60_000 };

/** A slot for everything that stands in the channel. */
const FREE = { retryInMs: undefined };

/** The round after which a receiver has said that it is gone for good. */
const GONE = { status: "gone", problem: "410", failures: 1, waitMs: 1, after: "0-0", newest: "0-0" } as const;

function scene() {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const keys = keysUnder(uniquePrefix());
  return { redis, keys, webhooks: createWebhooks(redis, keys), slots: createWebhookSlots(redis, keys) };
}

const parent: ParentAddress = { tenant: "default", parentId: "p" };
const member = parentMember(parent);

test("a slot is its first taker's until it ends; then nothing is left of it", async () => {
  const { redis, keys, slots } = scene();
  expect(await slots.begin(parent, A)).toEqual(FREE);
  expect(await slots.begin(parent, A)).toEqual(FREE);
  // If its holder dies, the slot is due when the lease is over.
  const heldMs = Number(await redis.zscore(keys.webhooksDue, member)) - (await redisNowMs(redis));
  expect(heldMs).toBeGreaterThan(0);
  expect(heldMs).toBeLessThanOrEqual(A.ms);
  expect(await slots.end(parent, "b", undefined)).toBe(true);
  expect(await slots.begin(parent, B)).toBeUndefined();
  expect(await slots.end(parent, "a", undefined)).toBe(true);
  expect(await slots.begin(parent, A)).toEqual(FREE);
  expect(await slots.end(parent, "a", undefined)).toBe(false);
  expect(await redis.exists(keys.webhooksDue, keys.webhookHolders)).toBe(0);
});

test("a process that heard of an entry while another had the slot has that one look once more, also when it dies", async () => {
  const { slots } = scene();
  await slots.begin(parent, A);
  await slots.begin(parent, B);
  expect(await slots.end(parent, "a", undefined)).toBe(true);
  // The first one dies here.
  expect(await slots.due(B, [], 1)).toMatchObject({ lost: [], taken: [member] });
});

test("a ring finds the slot of a process whose lease is over free, and serves what that was asked to check", async () => {
  const { redis, keys, slots } = scene();
  await slots.begin(parent, A);
  expect(await slots.begin(parent, B)).toBeUndefined();
  await redis.zadd(keys.webhooksDue, 1, member);
  expect(await slots.begin(parent, B)).toEqual(FREE);
  expect(await slots.end(parent, "b", undefined)).toBe(false);
});

test("a retry begins at its time, not at a ring before it", async () => {
  const { redis, keys, slots } = scene();
  await slots.begin(parent, A);
  expect(await slots.begin(parent, B)).toBeUndefined();
  expect(await slots.end(parent, "a", { inMs: 60_000, isRefused: false })).toBe(false);
  expect(await slots.begin(parent, A)).toBeUndefined();
  const { taken, next_ms } = await slots.due(B, [], 1);
  expect({ taken, isLater: (next_ms ?? 0) > 0 }).toEqual({ taken: [], isLater: true });
  await redis.zadd(keys.webhooksDue, 1, member);
  expect((await slots.due(B, [], 1)).taken).toEqual([member]);
  expect(await slots.begin(parent, A)).toBeUndefined();
});

test("what comes while refused entries wait for their time gets a slot at once, and they keep their time", async () => {
  const { redis, keys, slots } = scene();
  await slots.begin(parent, A);
  expect(await slots.end(parent, "a", { inMs: 60_000, isRefused: true })).toBe(false);
  const retryAt = Number(await redis.zscore(keys.webhooksDue, member));
  for (const lease of [A, B]) {
    const begun = await slots.begin(parent, lease);
    const { retryInMs = 0 } = begun ?? {};
    expect(retryInMs).toBeGreaterThan(0);
    expect(retryInMs).toBeLessThanOrEqual(60_000);
    // The parent is told the time of the retry, and not when the slot for newer entries is over.
    await redis.zadd(keys.webhooksDue, retryAt + 1_000_000, member);
    expect(await nextTryMsOf(redis, keys, parent)).toBeLessThan(retryAt + 60_000);
    // Sent again, because its answer was lost.
    expect((await slots.begin(parent, lease))?.retryInMs).toBeLessThanOrEqual(retryInMs);
    // Another process hears of an entry meanwhile: this one looks once more, before the retry.
    expect(await slots.begin(parent, { ...lease, token: "c" })).toBeUndefined();
    expect(await slots.end(parent, lease.token, { inMs: retryInMs, isRefused: true })).toBe(true);
    expect(Number(await redis.zscore(keys.webhooksDue, member))).toBeGreaterThanOrEqual(retryAt);
  }
  await redis.zadd(keys.webhooksDue, 1, member);
  expect((await slots.due(B, [], 1)).taken).toEqual([member]);
  expect(await slots.end(parent, "b", undefined)).toBe(false);
  expect(await redis.exists(keys.webhooksDue, keys.webhookHolders)).toBe(0);
});

test("the slot of a process that died while refused entries wait is taken for newer ones, until the time of the retry", async () => {
  const { redis, keys, slots } = scene();
  await slots.begin(parent, A);
  await slots.end(parent, "a", { inMs: 60_000, isRefused: true });
  await slots.begin(parent, A);
  // The process dies here, and its lease ends before the retry.
  await redis.zadd(keys.webhooksDue, 1, member);
  const { taken, resting } = await slots.due(B, [], 1);
  expect({ taken, resting }).toEqual({
    taken: [member],
    resting: [{ member, retry_in_ms: expect.any(Number) }],
  });
  expect(resting[0]?.retry_in_ms).toBeGreaterThan(0);
  expect(resting[0]?.retry_in_ms).toBeLessThanOrEqual(60_000);
  await redis.hset(keys.webhookHolders, `${member}/retry`, 1);
  await redis.zadd(keys.webhooksDue, 1, member);
  expect(await slots.due(A, [], 1)).toMatchObject({ taken: [member], resting: [] });
});

test("a process keeps its slots, and hears of those that passed to another", async () => {
  const { redis, keys, slots } = scene();
  const other: ParentAddress = { tenant: "default", parentId: "q" };
  await slots.begin(parent, A);
  await slots.begin(other, A);
  await redis.zadd(keys.webhooksDue, 1, member, 2, parentMember(other));
  expect((await slots.due(B, [], 1)).taken).toEqual([member]);
  const due = await slots.due(A, [member, parentMember(other)], 10);
  expect(due).toMatchObject({ lost: [member], taken: [] });
  expect(await slots.begin(other, B)).toBeUndefined();
});

test("no more slots are taken than there is room for", async () => {
  const { redis, keys, slots } = scene();
  await redis.zadd(keys.webhooksDue, 1, "default/a", 2, "default/b", 3, "default/c");
  expect(await slots.due(A, [], 0)).toMatchObject({ taken: [], next_ms: 0 });
  expect((await slots.due(A, [], 2)).taken).toEqual(["default/a", "default/b"]);
  expect((await slots.due(B, [], 2)).taken).toEqual(["default/c"]);
});

test("an entry rings those who push if its parent has a webhook", async () => {
  const rig = verbRig();
  const subscriber = openRedis(redisUrl(), "subscriber");
  closeAtEnd(() => closeRedis(subscriber));
  const heard: string[] = [];
  await subscriber.subscribe(rig.keys.webhookDoorbell, rig.keys.hints);
  subscriber.on("message", (_channel, text) => heard.push(text));
  const endsOne = async () => {
    const { agent } = await rig.running();
    await rig.store.settle(agent, DESTROY);
    // The hint to its worker is published behind the ring.
    await until(() => heard.includes(agent.uid), { what: "the hint" });
    return agent.uid;
  };
  const unrung = await endsOne();
  await createWebhooks(rig.redis, rig.keys).set(rig.parent, "https://example.com/");
  const member = parentMember(rig.parent);
  await until(() => heard.includes(member), { what: "the ring of the webhook" });
  expect(heard).toEqual([unrung, member]);
  const rung = await endsOne();
  expect(heard).toEqual([unrung, member, member, rung]);
});

test("a round that is taken forgets how the one before it failed", async () => {
  const { slots, webhooks } = scene();
  await webhooks.set(parent, "https://example.com/hook");
  const stored = async () => {
    const webhook = await webhooks.get(parent);
    if (!webhook) throw new Error("no webhook");
    return webhook;
  };
  const fresh = await stored();
  await slots.note(parent, fresh, {
    status: "refused",
    problem: "busy",
    failures: 3,
    waitMs: 1,
    after: "7-0",
    newest: "7-0",
  });
  expect(await stored()).toMatchObject({ failures: 3, after: "7-0", last_problem: "busy" });
  await slots.note(parent, fresh, { status: "ok" });
  expect(await stored()).toEqual(fresh);
});

test("a webhook that is set anew is pushed to at once, whoever has the slot or waits for a retry", async () => {
  const { redis, keys, slots, webhooks } = scene();
  await slots.begin(parent, A);
  await webhooks.set(parent, "https://example.com/");
  expect((await slots.due(A, [member], 0)).lost).toEqual([member]);
  expect(await slots.begin(parent, B)).toEqual(FREE);
  // What the one before refused waits for no retry of its own any more.
  await slots.end(parent, "b", { inMs: 60_000, isRefused: true });
  await webhooks.set(parent, "https://example.com/");
  expect(await slots.begin(parent, B)).toEqual(FREE);
  await webhooks.remove(parent);
  expect(await redis.exists(keys.webhooksDue, keys.webhookHolders, keys.webhooks)).toBe(0);
});

test.for([
  { status: "ok" },
  { status: "failed", problem: "500", failures: 1, waitMs: 1, after: "0-0", newest: "0-0" },
  GONE,
] as const)("a webhook that is removed while $status is noted is gone", async (outcome) => {
  const { redis, keys, slots, webhooks } = scene();
  await webhooks.set(parent, "https://example.com/");
  const webhook = await webhooks.get(parent);
  if (!webhook) throw new Error("no webhook");
  await Promise.all([slots.note(parent, webhook, outcome), webhooks.remove(parent)]);
  for (const key of [keys.parent(parent).webhook, keys.webhooks]) expect(await redis.exists(key)).toBe(0);
});

test("what a round met stands on its webhook until one ends as it should; a receiver that is gone is not walked to", async () => {
  const { redis, keys, slots, webhooks } = scene();
  await webhooks.set(parent, "https://example.com/");
  const set = await webhooks.get(parent);
  if (!set) throw new Error("no webhook");
  expect(await webhooks.view(parent)).toMatchObject({ status: "active" });
  await slots.note(parent, set, {
    status: "failed",
    problem: "500",
    failures: 1,
    waitMs: 1,
    after: "1-1",
    newest: "2-2",
  });
  expect(await webhooks.view(parent)).toMatchObject({ status: "failing", last_problem: "500" });
  await slots.note(parent, set, {
    status: "failed",
    problem: "500",
    failures: 2,
    waitMs: 1,
    after: "1-1",
    newest: "2-2",
  });
  expect(await webhooks.get(parent)).toEqual({
    ...set,
    failures: 2,
    after: "1-1",
    newest: "2-2",
    last_problem: "500",
  });
  await slots.note(parent, set, { status: "ok" });
  expect(await webhooks.get(parent)).toEqual(set);
  await slots.note(parent, set, GONE);
  expect(await webhooks.get(parent)).toMatchObject({ disabled: "1", last_problem: "410" });
  expect(await redis.exists(keys.webhooks)).toBe(0);
});

test("what an older round met is not noted on a webhook that was set since", async () => {
  const { redis, keys, slots, webhooks } = scene();
  await webhooks.set(parent, "https://example.com/old");
  const old = await webhooks.get(parent);
  if (!old) throw new Error("no webhook");
  await webhooks.set(parent, "https://example.com/new");
  await slots.note(parent, old, GONE);
  expect(await webhooks.get(parent)).toMatchObject({ url: "https://example.com/new", failures: 0 });
  expect((await webhooks.get(parent))?.disabled).toBeUndefined();
  // A walk finds it.
  expect(await redis.smembers(keys.webhooks)).toEqual([member]);
});
