/** Guarantee: an idle agent dies neither early nor late, and a lost wake is replaced. Sweepers are ticked by hand. */
import { Queue } from "bullmq";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { createSweeper, type Sweeper } from "../../../src/worker/sweeper.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, LONG_TIMING, openStage, SHORT_TIMING, type Stage } from "../../stage/stage.ts";

const done = { turns: [{ content: [{ type: "text" as const, text: "done" }] }], repeat: true };

function sweeperOf({ store, deadlines, wakes, redis, keys }: Stage): Sweeper {
  return createSweeper({
    store,
    deadlines,
    wakes,
    workers: createWorkerDirectory(redis, keys),
    clock: systemClock,
    logger: createLogger({ level: "silent" }),
  });
}

async function nowMs({ redis }: Stage): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

function queueOf({ redis, keys }: Stage): Queue {
  const queue = new Queue(keys.wakeQueue, { connection: redis, prefix: keys.bullPrefix });
  closeAtEnd(() => queue.close());
  return queue;
}

/** Ticks until `seen` is true, as sweepers do, only faster. */
async function tickUntil(sweeper: Sweeper, seen: () => Promise<boolean>): Promise<void> {
  await until(
    async () => {
      await sweeper.tick();
      return seen();
    },
    { everyMs: 20 },
  );
}

const isEnded = (installation: Stage, agent: Agent) => async () =>
  (await installation.record(agent)).status === "ended";

test("an idle agent ends after its idle time, not before, and says so once", async () => {
  const installation = await openStage();
  const sweeper = sweeperOf(installation);
  const idleMs = 600;
  const bornMs = await nowMs(installation);
  const agent = await installation.spawn({ idle_ms: idleMs });
  await tickUntil(sweeper, isEnded(installation, agent));
  const { ended_at = 0 } = await installation.record(agent);
  expect(ended_at - bornMs).toBeGreaterThanOrEqual(idleMs);
  expect(await installation.entries(agent)).toMatchObject([
    { kind: "ended", status: "cancelled", stop_reason: "idle", agent_status: "ended", turns: 0 },
  ]);
  expect(await installation.send(agent, "anybody there?")).toBe("ended");
});

test("a running sweeper ends a kept-alive agent soon after its idle time, shorter than a lease though it is", async () => {
  // The sweepers look during the run and learn of no deadline before the end of its lease.
  const installation = await openStage({ scenario: done, latencyMs: 2_500, timing: LONG_TIMING });
  await installation.startWorker();
  const agent = await installation.task("work", { keep_alive: true, idle_ms: 1_000 });
  const reply = await installation.reply(agent);
  const ended = await installation.recordWhere(agent, ({ status }) => status === "ended");
  const idleForMs = (ended.ended_at ?? 0) - Date.parse(reply.created_at);
  expect(idleForMs).toBeGreaterThanOrEqual(1_000);
});

test("a message that comes before the sweeper revives an agent whose idle time is over", async () => {
  const installation = await openStage({ scenario: done });
  const sweeper = sweeperOf(installation);
  const agent = await installation.spawn({ idle_ms: 50 });
  const { redis, keys } = installation;
  await until(async () => (await redis.exists(keys.agent(agent).life)) === 0);
  expect(await installation.send(agent, "work")).toBe("queued");
  await sweeper.tick();
  expect((await installation.record(agent)).status).toBe("queued");
  await installation.startWorker();
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", run: 1 });
});

test("an unanswered message ends its agent after max_age, as failed", async () => {
  const installation = await openStage({ timing: { ...SHORT_TIMING, maxAgeMs: 500 } });
  const sweeper = sweeperOf(installation);
  const agent = await installation.task("nobody works here");
  await tickUntil(sweeper, isEnded(installation, agent));
  expect(await installation.entries(agent)).toMatchObject([
    { kind: "ended", status: "failed", stop_reason: "max_age", undelivered: [expect.any(String)] },
  ]);
});

test("the greatest age of a message ends its agent in the middle of a run: the call is cut off, the parent told once", async () => {
  const look = { content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }] };
  const installation = await openStage({
    scenario: { turns: [look, { ...done.turns[0], latencyMs: 30_000 }] },
    timing: { ...SHORT_TIMING, maxAgeMs: 2_500 },
  });
  const worker = await installation.startWorker();
  const agent = await installation.task("hang");
  const { offline } = installation;
  await until(() => offline.ledger.length === 1 && offline.inFlight === 1);
  await installation.recordWhere(agent, ({ status }) => status === "ended");
  await until(() => offline.ledger[1]?.status === "aborted" && worker.active().length === 0);
  expect(await installation.entries(agent)).toMatchObject([
    { kind: "ended", status: "failed", stop_reason: "max_age", turns: 1, tools_called: { glob: 1 } },
  ]);
});

test("an agent that a worker gave back for longer than its message may wait ends at that age, not at the end of the wait", async () => {
  const overloaded = { status: 529, headers: { "retry-after": "600" } };
  const installation = await openStage({
    scenario: { turns: [{ error: overloaded }] },
    timing: { ...SHORT_TIMING, maxAgeMs: 2_500 },
  });
  const worker = await installation.startWorker();
  const agent = await installation.task("come back later");
  const released = await installation.recordWhere(
    agent,
    ({ status, wake }) => status === "queued" && wake > 1,
  );
  const notBefore = Number(
    await installation.redis.hget(installation.keys.agent(agent).record, "not_before"),
  );
  expect(notBefore - released.created_at).toBeGreaterThan(50_000);
  const ended = await installation.recordWhere(agent, ({ status }) => status === "ended");
  expect((ended.ended_at ?? 0) - ended.created_at).toBeLessThan(6_000);
  expect(worker.active()).toEqual([]);
  expect(await installation.entries(agent)).toMatchObject([
    { kind: "ended", status: "failed", stop_reason: "max_age", turns: 0 },
  ]);
});

test("a queued agent whose wake was lost from the queue is woken again and runs", async () => {
  const installation = await openStage({ scenario: done, timing: SHORT_TIMING });
  const agent = await installation.task("work");
  await queueOf(installation).obliterate({ force: true });
  await tickUntil(sweeperOf(installation), async () => (await installation.record(agent)).wake === 2);
  await installation.startWorker();
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", run: 1 });
});

test("an agent whose wake was taken by a worker that never claimed it is woken again and runs", async () => {
  const installation = await openStage({ scenario: done, timing: SHORT_TIMING });
  const agent = await installation.task("work");
  const { redis, keys } = installation;
  // Marked as taken, and nobody knows: what a worker leaves behind that died, or whose answer was lost on the way.
  const taken = await redis.lmove(
    `${keys.bullPrefix}:${keys.wakeQueue}:wait`,
    `${keys.bullPrefix}:${keys.wakeQueue}:active`,
    "RIGHT",
    "LEFT",
  );
  expect(taken).toBe(`${agent.uid}.1`);
  await redis.hset(
    `${keys.bullPrefix}:${keys.wakeQueue}:${taken}`,
    "processedOn",
    `${await nowMs(installation)}`,
  );
  await tickUntil(sweeperOf(installation), async () => (await installation.record(agent)).wake === 2);
  await installation.startWorker();
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", run: 1 });
});

test("a wake that still waits its turn is not doubled", async () => {
  const installation = await openStage({ timing: SHORT_TIMING });
  const agent = await installation.task("work");
  const sweeper = sweeperOf(installation);
  let checks = 0;
  await until(
    async () => {
      checks += await sweeper.tick();
      return checks >= 3;
    },
    { everyMs: 20 },
  );
  expect((await installation.record(agent)).wake).toBe(1);
  expect(await queueOf(installation).getWaitingCount()).toBe(1);
});

test("two sweepers that look at the same agents end each of them once", async () => {
  const installation = await openStage();
  const sweepers = [sweeperOf(installation), sweeperOf(installation)];
  const agents = await Promise.all(Array.from({ length: 20 }, () => installation.spawn({ idle_ms: 100 })));
  await until(
    async () => {
      await Promise.all(sweepers.map((sweeper) => sweeper.tick()));
      const records = await Promise.all(agents.map(installation.record));
      return records.every(({ status }) => status === "ended");
    },
    { everyMs: 20 },
  );
  for (const agent of agents) expect(await installation.entries(agent)).toHaveLength(1);
  await until(async () => {
    await Promise.all(sweepers.map((sweeper) => sweeper.tick()));
    return (await installation.redis.zcard(installation.keys.deadlines)) === 0;
  });
});

test("one record that cannot be looked at keeps no other agent from its end", async () => {
  const installation = await openStage();
  const { redis, keys, deadlines } = installation;
  const sick = { tenant: "default", parentId: "sick", uid: "sa-000000000000000000000000" };
  await redis.set(keys.agent(sick).record, "not a hash");
  await deadlines.hint(sick, 0);
  await redis.zadd(keys.deadlines, 0, "a member that names nobody");
  const agent = await installation.spawn({ idle_ms: 100 });
  await tickUntil(sweeperOf(installation), isEnded(installation, agent));
  expect(await installation.entries(agent)).toHaveLength(1);
  expect(await redis.zscore(keys.deadlines, "a member that names nobody")).toBeNull();
});
