/** A clock that is set forth ends leases and idle times before their time, one that is set back makes them last. */
import { expect, test } from "vitest";
import { openStage } from "../stage/stage.ts";
import { setClockForth } from "./redis-clock.ts";

const claimed = (name: string) => ({ claim_id: name, worker: name });

test("a lease is over as much sooner or later, and a sweeper is told to check as much sooner or later", async () => {
  const stage = await openStage();
  const { store, deadlines } = stage;
  const { leaseMs } = store.timing;
  const agent = await stage.task("work");
  expect(await store.claim(agent, claimed("w-1"))).toMatchObject({ status: "claimed" });
  await setClockForth(stage, -3 * leaseMs);
  const held = await store.claim(agent, claimed("w-2"));
  if (held.status !== "held") throw new Error(held.status);
  expect(held.wait_ms).toBeGreaterThan(3 * leaseMs);
  expect(await deadlines.due(10, 0)).toEqual([]);
  await setClockForth(stage, 5 * leaseMs);
  expect((await deadlines.due(10, 0)).map(({ address }) => address?.uid)).toEqual([agent.uid]);
  expect(await store.overdue(agent)).toMatchObject({ status: "lease_over" });
  expect(await store.claim(agent, claimed("w-2"))).toMatchObject({ status: "claimed" });
});

test("an idle time is over as much sooner, and what has no end keeps none", async () => {
  const stage = await openStage();
  const { store, redis, keys } = stage;
  const agent = await stage.spawn({ idle_ms: 60_000 });
  expect(await store.overdue(agent)).toMatchObject({ status: "not_due" });
  await setClockForth(stage, 60_000);
  expect(await store.overdue(agent)).toEqual({ status: "idle_over" });
  expect(await redis.pttl(keys.agent(agent).record)).toBe(-1);
});
