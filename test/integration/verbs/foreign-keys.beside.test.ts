/** Guarantee: a key whose value another program wrote hides nothing that stands beside it in a list. */
import { expect, test } from "vitest";
import { createProviderLimiter } from "../../../src/shared/redis/provider-limiter.ts";
import { createWebhookSlots } from "../../../src/shared/redis/webhook-slot.ts";
import { createWebhooks } from "../../../src/shared/redis/webhooks.ts";
import { DESTROY, verbRig } from "./rig.ts";

const UNASKED = { status: "open", enteredAt: Number.MAX_SAFE_INTEGER, holdsSlot: false } as const;
const LIMITED = { outcome: "limited", reason: "overloaded" } as const;

test("a limiter of the wrong type is left out of the list of limiters", async () => {
  const { redis, keys } = verbRig();
  const limiter = createProviderLimiter(redis, keys);
  for (const name of ["a", "b", "c"]) await limiter.release(name, "r", UNASKED, LIMITED);
  await redis.set(keys.limiter("b"), "foreign");
  expect((await limiter.list()).map(({ name }) => name)).toEqual(["a", "c"]);
  await redis.set(keys.limiters, "foreign");
  expect(await limiter.list()).toEqual([]);
});

test("a channel of the wrong type is left out of the parents with entries to push", async () => {
  const { redis, keys, store, parent, spawn } = verbRig();
  await store.settle(await spawn(), DESTROY);
  const other = { tenant: parent.tenant, parentId: `${parent.parentId}-other` };
  await redis.set(keys.parent(other).replies, "foreign");
  for (const each of [other, parent]) await createWebhooks(redis, keys).set(each, "https://example.com");
  const { parents } = await createWebhookSlots(redis, keys).page("0", 100);
  expect(parents).toEqual([parent]);
});
