import { expect, test } from "vitest";
import { openClientResources } from "../../../src/producer/client-resources.ts";
import { createParentLease } from "../../../src/producer/parent-lease.ts";
import type { Logger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { latch } from "../../helpers/latch.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";

const LEASE_MS = 6_000;
const parent = { tenant: "default", parentId: "planner-7" };

/** A parent's lease over a real Redis; `warn` is called with each line that warns. `block`: the clock goes on, and no timer fires, as in a process that is blocked. */
async function openLease(warn: () => void = () => {}) {
  const hand = handClock();
  let blockedMs = 0;
  const clock = { ...hand, monotonicMs: () => hand.monotonicMs() + blockedMs };
  const logger: Logger = { debug() {}, info() {}, warn, error() {}, child: () => logger };
  const client = openClientResources({ redisUrl: redisUrl(), prefix: uniquePrefix(), clock, logger });
  closeAtEnd(() => client.close());
  await until(() => client.redis.status === "ready");
  const lease = createParentLease(parent, LEASE_MS);
  closeAtEnd(() => lease.stop());
  const key = client.keys.parent(parent).lease;
  return {
    client,
    lease,
    key,
    advance: hand.advance,
    timers: () => hand.pending,
    block: (ms: number) => {
      blockedMs += ms;
    },
    /** Whether the lease was renewed since the last look. */
    isRenewed: async () => (await client.redis.del(key)) === 1,
  };
}

test("a lease that was renewed within half of its time is not renewed for a spawn, and an older one is", async () => {
  const { client, lease, block, isRenewed } = await openLease();
  await lease.hold(client);
  expect(await isRenewed()).toBe(true);
  block(LEASE_MS / 2 - 1);
  await lease.hold(client);
  expect(await isRenewed()).toBe(false);
  block(1);
  await lease.hold(client);
  expect(await isRenewed()).toBe(true);
});

test("the time of a renewal is that at which it was sent", async () => {
  const { client, lease, block, isRenewed } = await openLease();
  const holding = lease.hold(client);
  block(LEASE_MS / 2);
  await holding;
  expect(await isRenewed()).toBe(true);
  await lease.hold(client);
  expect(await isRenewed()).toBe(true);
});

test("a lease is renewed at each third of its time, by one timer however often it was asked for", async () => {
  const { client, lease, advance, block, isRenewed, timers } = await openLease();
  await lease.hold(client);
  block(LEASE_MS / 2);
  await Promise.all([lease.hold(client), lease.hold(client)]);
  expect(timers()).toBe(1);
  for (let round = 0; round < 3; round++) {
    expect(await isRenewed()).toBe(true);
    advance(LEASE_MS / 3 - 1);
    expect(await isRenewed()).toBe(false);
    advance(1);
    await until(() => client.redis.exists(client.keys.parent(parent).lease));
    await until(() => timers() === 1);
  }
});

test("a renewal that Redis refuses fails its spawn, and the next one asks again", async () => {
  const { client, lease, key, isRenewed } = await openLease();
  await client.redis.set(key, "no lease");
  await expect(lease.hold(client)).rejects.toMatchObject({ code: "redis_unavailable" });
  await client.redis.del(key);
  await lease.hold(client);
  expect(await isRenewed()).toBe(true);
});

test("a renewal by itself that Redis refuses is told, and tried again a second later", async () => {
  const told = latch();
  const { client, lease, key, advance, isRenewed } = await openLease(() => told.open());
  await lease.hold(client);
  await client.redis.del(key);
  await client.redis.set(key, "no lease");
  advance(LEASE_MS / 3);
  await told.opened;
  await client.redis.del(key);
  advance(1_000);
  await until(isRenewed, { timeoutMs: 10_000 });
});

test("no lease is held whose sweepers were not told of it before", async () => {
  const { client, lease, isRenewed } = await openLease();
  await client.redis.set(client.keys.deadlines, "no set");
  await expect(lease.hold(client)).rejects.toThrow("doctor");
  expect(await isRenewed()).toBe(false);
});

test("a lease that was stopped is not renewed, and leaves no timer", async () => {
  const { client, lease, isRenewed, timers } = await openLease();
  await lease.hold(client);
  lease.stop();
  expect(timers()).toBe(0);
  expect(await isRenewed()).toBe(true);
});

test("a lease that is stopped during its first renewal is not renewed again", async () => {
  const { client, lease, timers } = await openLease();
  const holding = lease.hold(client);
  lease.stop();
  await holding;
  await new Promise(setImmediate);
  expect(timers()).toBe(0);
});

test("a lease that is stopped during a renewal by itself is not renewed again", async () => {
  const { client, lease, advance, isRenewed, timers } = await openLease();
  await lease.hold(client);
  expect(await isRenewed()).toBe(true);
  advance(LEASE_MS / 3);
  lease.stop();
  await until(isRenewed);
  await until(() => timers() === 0);
});

test("a client that was closed ends the renewals, and is no failure of one", async () => {
  let isTold = false;
  const { client, lease, advance, timers } = await openLease(() => {
    isTold = true;
  });
  await lease.hold(client);
  await client.close();
  advance(LEASE_MS / 3);
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  expect([timers(), isTold]).toEqual([0, false]);
});
