/** Guarantee: a check of a queued agent costs Redis the same whatever waits, a reservation in a budget whatever is under way. */
import { expect, test } from "vitest";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { createBudgetBook } from "../../../src/shared/redis/budget.ts";
import { createWakeQueue } from "../../../src/shared/redis/wake-queue.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { startPrivateRedis } from "../../helpers/redis.ts";
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

/** Runs both in turns, so that what else the machine does disturbs both alike, and answers the least that each cost Redis, µs. */
async function cheapestOf(
  few: () => Promise<number>,
  many: () => Promise<number>,
): Promise<{ few: number; many: number }> {
  const costs: { few: number[]; many: number[] } = { few: [], many: [] };
  for (let i = 0; i < CHECKS; i += 1) {
    costs.few.push(await few());
    costs.many.push(await many());
  }
  return { few: Math.min(...costs.few), many: Math.min(...costs.many) };
}

test("a check costs Redis the same at 100 queued agents and at 30,000", async () => {
  const { few, many } = await cheapestOf(await overdueAmong(100), await overdueAmong(15_000));
  expect(many / few, `${few} µs, then ${many} µs a check`).toBeLessThan(2);
});

/** A budget with so many calls under way; answers what one more costs Redis from its reservation to its settling, µs. */
async function callAmong(
  rig: Rig,
  calls: number,
  windowMs: number | undefined,
): Promise<() => Promise<number>> {
  const book = createBudgetBook(rig.redis, rig.keys, rig.store.timing);
  const budgets = [{ name: `tenant/${calls}`, of: "tenant" as const, maxTokens: 1_000_000_000, windowMs }];
  const amount = { tokens: 1_000, costUsd: 0.01 };
  const reserve = (id: string) => book.reserve(budgets, id, amount, false);
  for (let from = 0; from < calls; from += 100)
    await Promise.all(Array.from({ length: 100 }, (_, i) => reserve(`under-way.${from + i}`)));
  let made = 0;
  return async () => {
    made += 1;
    const before = await spentUs(rig);
    expect(await reserve(`one-more.${made}`)).toMatchObject({ status: "granted" });
    await book.settle(budgets, `one-more.${made}`, amount);
    return (await spentUs(rig)) - before;
  };
}

test.each([
  ["with a rolling window", 3_600_000],
  ["without a window", undefined],
])(
  "a call within a budget %s costs Redis the same at 100 calls under way and at 30,000",
  async (_, windowMs) => {
    const rig = verbRig({ url: (await startPrivateRedis()).url });
    const { few, many } = await cheapestOf(
      await callAmong(rig, 100, windowMs),
      await callAmong(rig, 30_000, windowMs),
    );
    expect(many / few, `${few} µs, then ${many} µs a call`).toBeLessThan(2);
  },
);
