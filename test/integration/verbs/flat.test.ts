/** Guarantee: a check of a queued agent costs Redis the same whatever waits; what a turn writes is bounded. */
import { expect, test } from "vitest";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { createWakeQueue } from "../../../src/shared/redis/wake-queue.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { type Rig, verbRig } from "./rig.ts";

const CHECKS = 100;

/** Microseconds that Redis has spent on commands so far, but for those that ask for it. */
async function spentUs(rig: Rig): Promise<number> {
  const stats = await rig.redis.info("commandstats");
  const spent = stats.matchAll(/^cmdstat_(\S+?):.*?usec=(\d+)/gm);
  return [...spent].reduce((sum, [, name, usec]) => (name === "info" ? sum : sum + Number(usec)), 0);
}

/** One queued agent that is overdue, with so many jobs on either side of its own; answers what one check of it costs Redis, µs. */
async function overdueAmong(jobs: number): Promise<() => Promise<number>> {
  const rig = verbRig();
  const wakes = createWakeQueue(rig.redis, rig.keys);
  closeAtEnd(() => wakes.stop());
  const agent = await rig.queued();
  const { uid } = agent;
  await wakes.add({ uid, tenant: agent.tenant, parent_id: agent.parentId, agent_id: "researcher", wake: 1 });
  await queueMore(rig, jobs);
  await rig.redis.hset(rig.keys.agent(agent).record, "deadline", "1");
  await rig.redis.zadd(rig.keys.deadlines, 1, deadlineMember(agent));
  return async () => {
    const before = await spentUs(rig);
    const [due] = await rig.deadlines.due(1, 60_000);
    const job = due && (await rig.store.waitingJob(agent, due.nowMs));
    expect(job?.wake).toBe(1);
    expect(await wakes.isAlive({ uid, wake: 1 })).toBe(true);
    if (due) await rig.deadlines.move([{ due, at: 1 }]);
    return (await spentUs(rig)) - before;
  };
}

/** So many jobs more at each end of the list of those that wait. */
async function queueMore(rig: Rig, jobs: number): Promise<void> {
  const wait = `${rig.keys.bullPrefix}:${rig.keys.wakeQueue}:wait`;
  for (let from = 0; from < jobs; from += 100) {
    const fillers = Array.from({ length: 100 }, (_, i) => `filler.${from + i}`);
    await rig.redis.lpush(wait, ...fillers);
    await rig.redis.rpush(wait, ...fillers);
  }
}

test("a check costs Redis the same at 100 queued agents and at 30,000", async () => {
  const atFew = await overdueAmong(100);
  const atMany = await overdueAmong(15_000);
  // In turns, so that what else the machine does disturbs both alike; the cheapest of many is one that nothing interrupted.
  const [few, many]: [number[], number[]] = [[], []];
  for (let i = 0; i < CHECKS; i += 1) {
    few.push(await atFew());
    many.push(await atMany());
  }
  const [cheapestOfFew, cheapestOfMany] = [Math.min(...few), Math.min(...many)];
  expect(
    cheapestOfMany / cheapestOfFew,
    `${cheapestOfFew} µs, then ${cheapestOfMany} µs a check`,
  ).toBeLessThan(2);
});
