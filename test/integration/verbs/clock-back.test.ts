/**
 * Guarantee: a clock of Redis that is set back by N delays by N what was announced before, and does no other harm. What stood
 * in Redis then lies N further ahead of its clock: that is how the clock is set back here.
 */
import { expect, test } from "vitest";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { RECORD_TIMES } from "../../helpers/redis-clock.ts";
import { DESTROY, type Rig, verbRig, wellDone } from "./rig.ts";

const BACK_MS = 3_600_000;

/** Sets Redis' clock back for all that stands there about an agent. */
async function setBack({ redis, keys }: Rig, agent: ReturnType<Rig["address"]>): Promise<void> {
  const { record, life } = keys.agent(agent);
  for (const field of RECORD_TIMES)
    if (await redis.hexists(record, field)) await redis.hincrby(record, field, BACK_MS);
  if ((await redis.pttl(life)) > 0) await redis.pexpire(life, (await redis.pttl(life)) + BACK_MS);
  await redis.zincrby(keys.deadlines, BACK_MS, deadlineMember(agent));
}

const claimOf = (rig: Rig, agent: ReturnType<Rig["address"]>) =>
  rig.store.claim(agent, { claim_id: "next", worker: "w-2" });

test("a live worker keeps its run: its next renewal counts from the new time", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await setBack(rig, agent);
  expect(await rig.store.renew(agent, { epoch, running_ms: 1 })).toMatchObject({ status: "ok" });
  const leftMs = Number((await rig.raw(agent)).lease_until) - (await rig.redisNow());
  expect(leftMs).toBeLessThanOrEqual(rig.store.timing.leaseMs);
  await rig.readFirst(agent, epoch);
  expect(await rig.store.settle(agent, wellDone(epoch))).toMatchObject({ status: "settled" });
});

test("the run of a dead worker is claimed again later by as much, and loses nothing", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  await setBack(rig, agent);
  const held = await claimOf(rig, agent);
  if (held.status !== "held") throw new Error(held.status);
  expect(held.wait_ms).toBeGreaterThan(BACK_MS);
  expect(held.wait_ms).toBeLessThanOrEqual(BACK_MS + rig.store.timing.leaseMs);
  await rig.redis.hset(rig.keys.agent(agent).record, "lease_until", await rig.redisNow());
  const claimed = await claimOf(rig, agent);
  if (claimed.status !== "claimed") throw new Error(claimed.status);
  expect([...(claimed.log?.keys() ?? [])]).toEqual(["0"]);
});

test("a message is accepted and begins a run at once, and a destroy ends one at once", async () => {
  const rig = verbRig();
  const idle = await rig.spawn();
  await setBack(rig, idle);
  expect(await rig.send(idle, "work")).toMatchObject({ status: "queued" });
  expect((await claimOf(rig, idle)).status).toBe("claimed");
  expect((await rig.store.settle(idle, DESTROY)).status).toBe("settled");
});

test("the end of an idle agent is later by as much, not lost", async () => {
  const rig = verbRig();
  const agent = await rig.spawn({ idleMs: 1_000 });
  await setBack(rig, agent);
  const found = await rig.store.overdue(agent);
  if (found.status !== "not_due") throw new Error(found.status);
  const inMs = found.deadline - (await rig.redisNow());
  expect(inMs).toBeGreaterThan(BACK_MS - 60_000);
  expect(inMs).toBeLessThanOrEqual(BACK_MS + 1_000);
});
