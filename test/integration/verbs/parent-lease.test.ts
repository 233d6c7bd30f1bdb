/** A parent's lease in Redis: noted when it is over, lapsed half of it later, and decided anew inside each verb. */
import { expect, test } from "vitest";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import type { VerbInput } from "../../../src/shared/redis/scripts.ts";
import { type Rig, SPEC, verbRig } from "./rig.ts";

const PARENT_GONE: VerbInput<"settle"> = {
  authority: "sweeper",
  target: "ended",
  ended_reason: "destroyed",
  status: "cancelled",
  stop_reason: "parent_gone",
};
const LEASE = { parent_lease_ms: 60_000 };

async function followerOf(rig: Rig, on_parent_gone: "finish" | "destroy"): Promise<AgentAddress> {
  const agent = rig.address();
  await rig.store.spawn(agent, {
    request_key: agent.uid,
    digest: "d",
    stem: "a",
    name: "A",
    spec: JSON.stringify(SPEC),
    idle_ms: 60_000,
    on_parent_gone,
  });
  return agent;
}

const lease = ({ keys, parent }: Rig) => keys.parent(parent).lease;
/** The lease is over, and a sweeper noted it so long ago. */
const lapse = async (rig: Rig) => {
  const graceMs = LEASE.parent_lease_ms / 2;
  await rig.redis.hset(lease(rig), { held_until: 1, lapsed_at: (await rig.redisNow()) - graceMs });
};

test("a lease that is over is noted first, and lapses half of it later; until then nothing follows", async () => {
  const rig = verbRig();
  const agent = await followerOf(rig, "destroy");
  const held = await rig.store.hold(agent, LEASE);
  expect(await rig.store.orphans(agent)).toEqual({ status: "held", at: held.at });
  await rig.redis.hset(lease(rig), "held_until", "1");
  const before = await rig.redisNow();
  const noted = await rig.store.orphans(agent);
  expect(noted).toMatchObject({ status: "held" });
  expect(noted.status === "held" && noted.at).toBeGreaterThanOrEqual(before + LEASE.parent_lease_ms / 2);
  expect(await rig.store.orphans(agent)).toEqual(noted);
  expect((await rig.store.overdue(agent)).status).toBe("not_due");
  expect((await rig.store.settle(agent, PARENT_GONE)).status).toBe("not_due");
  await rig.redis.hincrby(lease(rig), "lapsed_at", 1_000 - LEASE.parent_lease_ms / 2);
  expect((await rig.store.orphans(agent)).status).toBe("held");
  expect((await rig.store.overdue(agent)).status).toBe("not_due");
  await lapse(rig);
  const gone = await rig.store.orphans(agent);
  expect(gone).toMatchObject({ status: "gone", uids: [agent.uid] });
  expect("at" in gone && gone.at).toBeGreaterThan(await rig.redisNow());
  expect((await rig.store.overdue(agent)).status).toBe("parent_gone");
  expect((await rig.store.settle(agent, PARENT_GONE)).status).toBe("settled");
  expect((await rig.store.orphans(agent)).status).toBe("no_agents");
});

test("a parent that comes back between the check and the end keeps its agents", async () => {
  const rig = verbRig();
  const { agent: running } = await rig.running();
  await rig.redis.hset(rig.keys.agent(running).record, "on_parent_gone", "finish");
  const idle = await followerOf(rig, "destroy");
  await lapse(rig);
  expect((await rig.store.overdue(idle)).status).toBe("parent_gone");
  expect((await rig.store.overdue(running)).status).toBe("must_finish");
  await rig.store.hold(idle, LEASE);
  expect((await rig.store.settle(idle, PARENT_GONE)).status).toBe("not_due");
  expect((await rig.store.finish(running, { orphaned: true })).status).toBe("not_due");
  expect((await rig.raw(running)).finish).toBeUndefined();
});

test("to finish, a run is asked once and an idle agent ends; one that has got a message meanwhile does not", async () => {
  const rig = verbRig();
  const agent = await followerOf(rig, "finish");
  await lapse(rig);
  expect((await rig.store.overdue(agent)).status).toBe("parent_gone");
  await rig.send(agent, "look");
  expect((await rig.store.settle(agent, PARENT_GONE)).status).toBe("not_due");
  expect((await rig.store.overdue(agent)).status).toBe("must_finish");
  expect(await rig.store.finish(agent, { orphaned: true })).toMatchObject({ status: "finishing", wake: 1 });
  expect((await rig.store.overdue(agent)).status).toBe("not_due");
});

test("an agent that was spawned without a lease does not follow, and a shorter lease shortens no longer one", async () => {
  const rig = verbRig();
  const plain = await rig.spawn();
  await lapse(rig);
  expect((await rig.store.overdue(plain)).status).toBe("not_due");
  expect((await rig.store.settle(plain, PARENT_GONE)).status).toBe("not_due");
  const long = await rig.store.hold(plain, LEASE);
  expect(await rig.store.hold(plain, { parent_lease_ms: 1_000 })).toEqual(long);
});

test("a short lease lapses no sooner than a check after it was noted, and one of another version then", async () => {
  const rig = verbRig();
  const { checkMs } = rig.store.timing;
  for (const short of [true, false]) {
    const agent = await followerOf(rig, "destroy");
    if (short) await rig.store.hold(agent, { parent_lease_ms: 1_000 });
    else await rig.redis.hdel(lease(rig), "lease_ms", "lapsed_at");
    await rig.redis.hset(lease(rig), "held_until", "1");
    const before = await rig.redisNow();
    const noted = await rig.store.orphans(agent);
    expect(noted.status === "held" && noted.at).toBeGreaterThanOrEqual(before + checkMs);
    expect(noted.status === "held" && noted.at).toBeLessThan(before + checkMs + 5_000);
  }
});

test("a parent of two processes is given half of the lease that ends last", async () => {
  const rig = verbRig();
  const agent = await followerOf(rig, "destroy");
  for (const parent_lease_ms of [60_000, 600_000, 60_000]) await rig.store.hold(agent, { parent_lease_ms });
  expect(await rig.redis.hget(lease(rig), "lease_ms")).toBe("600000");
});
