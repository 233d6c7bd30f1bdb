/** Guarantee: at most one process has the turn to push for a parent, none is lost with a process, and no entry is heard of in vain. */
import { expect, test } from "vitest";
import { keysUnder, type ParentAddress, parentMember } from "../../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { createWebhookTurns, type PushLease } from "../../../src/shared/redis/webhook-turns.ts";
import { createWebhooks } from "../../../src/shared/redis/webhooks.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";

const A: PushLease = { token: "a", ms: 60_000 };
const B: PushLease = { token: "b", ms: 60_000 };

function scene() {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const keys = keysUnder(uniquePrefix());
  return { redis, keys, webhooks: createWebhooks(redis, keys), turns: createWebhookTurns(redis, keys) };
}

const parent: ParentAddress = { tenant: "default", parentId: "p" };
const member = parentMember(parent);

test("a turn is its first taker's until it ends; then nothing is left of it", async () => {
  const { redis, keys, turns } = scene();
  expect(await turns.begin(parent, A)).toBe(true);
  expect(await turns.begin(parent, A)).toBe(true);
  expect(await turns.end(parent, "b", undefined)).toBe(true);
  expect(await turns.begin(parent, B)).toBe(false);
  expect(await turns.end(parent, "a", undefined)).toBe(true);
  expect(await turns.begin(parent, A)).toBe(true);
  expect(await turns.end(parent, "a", undefined)).toBe(false);
  expect(await redis.exists(keys.webhooksDue, keys.webhookHolders)).toBe(0);
});

test("a process that heard of an entry while another had the turn has that one look once more, also when it dies", async () => {
  const { turns } = scene();
  await turns.begin(parent, A);
  await turns.begin(parent, B);
  expect(await turns.end(parent, "a", undefined)).toBe(true);
  // The first one dies here.
  expect(await turns.due(B, [], 1)).toMatchObject({ lost: [], taken: [member] });
});

test("a retry begins at its time, not at a ring before it", async () => {
  const { redis, keys, turns } = scene();
  await turns.begin(parent, A);
  expect(await turns.end(parent, "a", 60_000)).toBe(false);
  expect(await turns.begin(parent, A)).toBe(false);
  const { taken, next_ms } = await turns.due(B, [], 1);
  expect({ taken, isLater: (next_ms ?? 0) > 0 }).toEqual({ taken: [], isLater: true });
  await redis.zadd(keys.webhooksDue, 1, member);
  expect((await turns.due(B, [], 1)).taken).toEqual([member]);
  expect(await turns.begin(parent, A)).toBe(false);
});

test("a process keeps its turns, and hears of those that passed to another", async () => {
  const { redis, keys, turns } = scene();
  const other: ParentAddress = { tenant: "default", parentId: "q" };
  await turns.begin(parent, A);
  await turns.begin(other, A);
  await redis.zadd(keys.webhooksDue, 1, member, 2, parentMember(other));
  expect((await turns.due(B, [], 1)).taken).toEqual([member]);
  const due = await turns.due(A, [member, parentMember(other)], 10);
  expect(due).toMatchObject({ lost: [member], taken: [] });
  expect(await turns.begin(other, B)).toBe(false);
});

test("no more turns are taken than there is room for", async () => {
  const { redis, keys, turns } = scene();
  await redis.zadd(keys.webhooksDue, 1, "default/a", 2, "default/b", 3, "default/c");
  expect(await turns.due(A, [], 0)).toMatchObject({ taken: [], next_ms: 0 });
  expect((await turns.due(A, [], 2)).taken).toEqual(["default/a", "default/b"]);
  expect((await turns.due(B, [], 2)).taken).toEqual(["default/c"]);
});

test("a webhook that is set anew is pushed to at once, whoever has the turn or waits for a retry", async () => {
  const { redis, keys, turns, webhooks } = scene();
  await turns.begin(parent, A);
  await webhooks.set(parent, "https://example.com/");
  expect((await turns.due(A, [member], 0)).lost).toEqual([member]);
  expect(await turns.begin(parent, B)).toBe(true);
  await webhooks.remove(parent);
  expect(await redis.exists(keys.webhooksDue, keys.webhookHolders, keys.webhooks)).toBe(0);
});

test("what an older round met is not noted on a webhook that was set since", async () => {
  const { turns, webhooks } = scene();
  await webhooks.set(parent, "https://example.com/old");
  const old = await webhooks.get(parent);
  if (!old) throw new Error("no webhook");
  await webhooks.set(parent, "https://example.com/new");
  await turns.note(parent, old, { status: "gone", problem: "410", failures: 1, waitMs: 1, after: "0-0" });
  expect(await webhooks.get(parent)).toMatchObject({ url: "https://example.com/new", failures: 0 });
  expect((await webhooks.get(parent))?.disabled).toBeUndefined();
});
