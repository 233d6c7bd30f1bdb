import { expect, test } from "vitest";
import { newUid } from "../../../../src/shared/protocol/ids.ts";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { createCallbacks } from "../../../../src/shared/redis/callbacks.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { redisNowMs } from "../../../../src/shared/redis/redis-time.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../../helpers/redis.ts";

function openCallbacks() {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const keys = keysUnder(uniquePrefix());
  return { redis, keys, callbacks: createCallbacks(redis, keys) };
}

test("the callback of a thread is kept for nine days from its last run on", async () => {
  const { redis, keys, callbacks } = openCallbacks();
  const parent = { tenant: "t", parentId: "p" };
  const key = keys.parent(parent).callback("thread");
  const keptDays = async () => (await redis.pttl(key)) / 86_400_000;
  await callbacks.set(parent, "thread", "main");
  expect(await keptDays()).toBeCloseTo(9, 2);
  await redis.pexpire(key, 60_000);
  expect(await callbacks.get(parent, "thread")).toBe("main");
  expect(await keptDays()).toBeCloseTo(9, 2);
});

test("a note that was forgotten meanwhile does not come back when it is put off: its callback was sent", async () => {
  const { redis, keys, callbacks } = openCallbacks();
  const [sent, open] = ["sent", "open"].map((parentId) => ({ tenant: "t", parentId, uid: newUid() }));
  if (!sent || !open) throw new Error("two agents");
  for (const agent of [sent, open]) await callbacks.note(agent, 60_000);
  await callbacks.forget([sent]);
  await callbacks.later([sent, open].map((agent) => ({ agent, inMs: 1_000 })));
  expect(await redis.zcard(keys.callbacks)).toBe(1);
});

test("a member that names no agent is removed at the first look, also a single one", async () => {
  const { redis, keys, callbacks } = openCallbacks();
  await redis.zadd(keys.callbacks, 1, "no agent");
  expect(await callbacks.due("me", Date.now())).toEqual([]);
  expect(await redis.zcard(keys.callbacks)).toBe(0);
});

test("a note rests from its writing on: its agent may not be there yet", async () => {
  const { redis, callbacks } = openCallbacks();
  const agent = { tenant: "t", parentId: "p", uid: newUid() };
  await callbacks.note(agent, 60_000);
  const nowMs = await redisNowMs(redis);
  expect(await callbacks.due("me", nowMs + 50_000)).toEqual([]);
  expect(await callbacks.due("me", nowMs + 60_000)).toEqual([{ agent, status: "unknown", ageMs: 0 }]);
});

test("an agent whose record cannot be read counts as at work: its end is still to be told", async () => {
  const { redis, keys, callbacks } = openCallbacks();
  const agent = { tenant: "t", parentId: "p", uid: newUid() };
  await redis.set(keys.agent(agent).record, "no hash");
  await callbacks.note(agent, 0);
  const untilMs = (await redisNowMs(redis)) + 1;
  expect(await callbacks.due("me", untilMs)).toEqual([{ agent, status: "at_work", ageMs: 0 }]);
});
