import { DelayedError, type Job, WaitingError, Worker } from "bullmq";
import { expect, test } from "vitest";
import { Wake } from "../../../src/shared/protocol/worker.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { loadScripts } from "../../../src/shared/redis/scripts.ts";
import { createWakeQueue } from "../../../src/shared/redis/wake-queue.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { type Rig, verbRig } from "./rig.ts";

function queueOf(rig: Rig) {
  const queue = createWakeQueue(rig.redis, rig.keys);
  closeAtEnd(() => queue.stop());
  return queue;
}
const wakeOf = (rig: Rig, wake = 1) => {
  const { uid, tenant, parentId } = rig.address();
  return { uid, tenant, parent_id: parentId, agent_id: "researcher", wake };
};
function workerOf(rig: Rig, process: (wake: Wake, job: Job, token?: string) => Promise<void>): Worker<Wake> {
  const connection = openRedis(redisUrl(), "worker");
  const worker = new Worker<Wake>(
    rig.keys.wakeQueue,
    (job, token) => process(Wake.parse(job.data), job, token),
    { connection, prefix: rig.keys.bullPrefix },
  );
  worker.on("error", () => {});
  closeAtEnd(async () => {
    await worker.close(true);
    closeRedis(connection);
  });
  return worker;
}

test("a wake is a job of its uid and number that carries ids only", async () => {
  const rig = verbRig();
  const wake = wakeOf(rig, 7);
  await queueOf(rig).add(wake);
  const job = await rig.redis.hgetall(`${rig.keys.bullPrefix}:${rig.keys.wakeQueue}:${wake.uid}.7`);
  expect(job.name).toBe("researcher");
  expect(JSON.parse(job.data ?? "")).toEqual({ v: 1, ...wake });
});

test("a wake added twice is delivered once", async () => {
  const rig = verbRig();
  const queue = queueOf(rig);
  const [twice, after] = [wakeOf(rig), wakeOf(rig)];
  await queue.add(twice);
  await queue.add(twice);
  await queue.add(after);
  const delivered: string[] = [];
  const all = latch();
  workerOf(rig, async ({ uid }) => {
    delivered.push(uid);
    if (uid === after.uid) all.open();
  });
  await all.opened;
  expect(delivered).toEqual([twice.uid, after.uid]);
});

test("a wake is alive while it waits; one that is delayed, taken, done or gone is not", async () => {
  const rig = verbRig();
  const queue = queueOf(rig);
  const [now, later] = [wakeOf(rig), wakeOf(rig)];
  expect(await queue.isAlive(now)).toBe(false);
  await queue.add(now);
  await queue.add(later, 60_000);
  expect([await queue.isAlive(now), await queue.isAlive(later)]).toEqual([true, false]);
  const [taken, mayEnd] = [latch(), latch()];
  workerOf(rig, async () => {
    taken.open();
    await mayEnd.opened;
  });
  await taken.opened;
  expect(await queue.isAlive(now)).toBe(false);
  mayEnd.open();
  expect(await queue.isAlive({ uid: now.uid, wake: 2 })).toBe(false);
});

test("a delayed wake is alive once its time has come and it waits to be taken", async () => {
  const rig = verbRig();
  const queue = queueOf(rig);
  const [first, next] = [wakeOf(rig), wakeOf(rig)];
  for (const wake of [first, next]) await queue.add(wake, 50);
  const dueMs = Date.now() + 50;
  expect(await queue.isAlive(next)).toBe(false);
  // BullMQ moves all that are due into the line when a worker asks for the next.
  await until(() => Date.now() > dueMs);
  const [taken, mayEnd] = [latch<string>(), latch()];
  workerOf(rig, async ({ uid }) => {
    taken.open(uid);
    await mayEnd.opened;
  });
  const waits = (await taken.opened) === first.uid ? next : first;
  expect(await queue.isAlive(waits)).toBe(true);
  mayEnd.open();
});

test("a wake that a worker handed back is alive while it stands in the line again, and while it rests for a moment", async () => {
  const rig = verbRig();
  const queue = queueOf(rig);
  const [inLine, resting, far] = [wakeOf(rig), wakeOf(rig), wakeOf(rig)];
  const restMs = new Map([
    [resting.uid, 9_000],
    [far.uid, 600_000],
  ]);
  const handedBack = latch();
  let left = 3;
  const worker = workerOf(rig, async ({ uid }, job, token) => {
    const delayMs = restMs.get(uid);
    if (delayMs === undefined) {
      await worker.pause(true);
      await job.moveToWait(token);
    } else await job.moveToDelayed(Date.now() + delayMs, token);
    left -= 1;
    if (left === 0) handedBack.open();
    throw delayMs === undefined ? new WaitingError() : new DelayedError();
  });
  for (const wake of [resting, far, inLine]) await queue.add(wake);
  await handedBack.opened;
  expect(await queue.isAlive(inLine)).toBe(true);
  expect(await queue.isAlive(resting)).toBe(true);
  expect(await queue.isAlive(far)).toBe(false);
});

test("stopping the queue twice is as good as once, and leaves the connection to its owner", async () => {
  const rig = verbRig();
  const queue = queueOf(rig);
  await queue.add(wakeOf(rig));
  await queue.stop();
  await queue.stop();
  expect(await rig.redis.ping()).toBe("PONG");
});

/** The last place, and how far places are apart in the scores of BullMQ. */
const [LAST, PLACE] = [2_097_151, 2 ** 32];

/** A line of wakes that have no place yet, in the order of their names, and the verb that gives one of them its place. */
async function lineOf(...jobs: readonly string[]) {
  const { redis, keys, store } = verbRig();
  for (const [i, job] of jobs.entries()) await redis.zadd(keys.rankedWakes, LAST * PLACE + i, job);
  const scripts = loadScripts(redis, keys, store.timing);
  const rank = (job_id: string, fair_parent = "p") =>
    scripts.run("fair-rank", undefined, { tenant: "acme", job_id, fair_parent });
  return { redis, keys, rank };
}

test("a wake gets its place once, and none while a worker has it; the places of a tenant are forgotten a day later", async () => {
  const { redis, keys, rank } = await lineOf("a.1", "b.1");
  expect(await rank("a.1")).toEqual({ status: "ranked", position: 1 });
  expect(await rank("b.1")).toEqual({ status: "ranked", position: 2 });
  const before = await redis.zrange(keys.rankedWakes, 0, -1, "WITHSCORES");
  for (const job of ["a.1", "b.1", "taken.1"]) expect(await rank(job)).toEqual({ status: "gone" });
  expect(await redis.zrange(keys.rankedWakes, 0, -1, "WITHSCORES")).toEqual(before);
  expect(await redis.pttl(keys.fairTenant("acme"))).toBeGreaterThan(23 * 3_600_000);
});

test("a line that outgrows the greatest priority continues in the order of arrival", async () => {
  const { redis, keys, rank } = await lineOf("c.1", "b.1", "a.1");
  await rank("c.1");
  const period = Number(await redis.get(keys.fairPeriod)) * 2 * (LAST + 1);
  await redis.zadd(keys.fairTenant("acme"), period + LAST, "p");
  for (const job of ["a.1", "b.1"]) expect(await rank(job)).toEqual({ status: "ranked", position: LAST - 1 });
  expect(await redis.zrange(keys.rankedWakes, 0, -1)).toEqual(["c.1", "b.1", "a.1"]);
});
