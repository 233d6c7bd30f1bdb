/**
 * Guarantee: beside workers of a newer version this one takes nothing from them, fails nothing of theirs and does not spin.
 * A newer version is played by records, wakes and entries that carry one, a newer worker by taking the mark off again.
 */
import { type Job, Queue } from "bullmq";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { createSweeper } from "../../../src/worker/sweeper.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage } from "../../stage/stage.ts";

const scenario = { turns: [{ content: [{ type: "text" as const, text: "done" }] }], repeat: true };

function queueOf({ redis, keys }: Stage): Queue {
  const queue = new Queue(keys.wakeQueue, { connection: redis, prefix: keys.bullPrefix });
  closeAtEnd(() => queue.close());
  return queue;
}

/** What Redis holds of the agent. */
async function everythingOf({ redis, keys }: Stage, agent: Agent) {
  const { record, log, inbox } = keys.agent(agent);
  return [await redis.hgetall(record), await redis.hgetall(log), await redis.lrange(inbox, 0, -1)];
}

/** An agent with a message and no wake yet; `fields` go into its record. */
async function waiting(installation: Stage, fields: Record<string, string>): Promise<Agent> {
  const { store, redis, keys } = installation;
  const agent = await installation.spawn();
  await store.send(agent, {
    message_id: agent.uid,
    payload: JSON.stringify({ v: 1, message_id: agent.uid, text: "work" }),
    digest: "",
  });
  if (Object.keys(fields).length > 0) await redis.hset(keys.agent(agent).record, fields);
  return agent;
}

const wakeFor = ({ tenant, parentId, uid, agentId }: Agent, wake = 1) => ({
  tenant,
  parent_id: parentId,
  uid,
  agent_id: agentId,
  wake,
});

const takenAtLeast = (queue: Queue, id: string, times: number): Promise<Job> =>
  until(
    async () => {
      const job: Job | undefined = await queue.getJob(id);
      return job && job.attemptsStarted >= times && job;
    },
    { what: `job ${id} to be taken ${times} times` },
  );

test("a newer version's agent is left as it is, its wake stays in the queue, and whoever can run it does so soon", async () => {
  const installation = await openStage({ scenario });
  const { redis, keys, wakes } = installation;
  await installation.startWorker();
  await installation.startWorker();
  const agent = await waiting(installation, { v: "2" });
  await redis.hset(keys.agent(agent).log, "0/vote", '{"v":2}');
  const before = await everythingOf(installation, agent);
  const queue = queueOf(installation);
  const startedMs = performance.now();
  await wakes.add(wakeFor(agent));
  await takenAtLeast(queue, `${agent.uid}.1`, 9);
  // Two workers take it twice a round; four rests lie between nine takes: at the least 0.1, 0.2, 0.4 and 0.8 s.
  expect(performance.now() - startedMs).toBeGreaterThan(1_500);
  expect(await everythingOf(installation, agent)).toEqual(before);
  expect(await installation.reply(await installation.task("work"))).toMatchObject({ status: "succeeded" });

  await redis.hdel(keys.agent(agent).log, "0/vote");
  await redis.hset(keys.agent(agent).record, "v", "1");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
  expect(await installation.entries(agent)).toHaveLength(1);
  expect(await queue.getFailedCount()).toBe(0);
});

test("a newer version's wake that was replaced is not kept in the queue", async () => {
  const installation = await openStage({ scenario });
  const agent = await waiting(installation, { v: "2", wake: "3" });
  await installation.startWorker();
  await installation.wakes.add(wakeFor(agent));
  const queue = queueOf(installation);
  const [job] = await until(async () => {
    const jobs = await queue.getCompleted();
    return jobs.length > 0 && jobs;
  });
  expect(job?.returnvalue).toEqual({ status: "passed", because: "replaced" });
});

test("a newer version's wake is never failed; an agent that this version can run is woken by its sweeper", async () => {
  const installation = await openStage({ scenario, timing: SHORT_TIMING });
  const queue = queueOf(installation);
  const agent = await waiting(installation, {});
  await installation.deadlines.hint(agent, SHORT_TIMING.checkMs);
  await queue.add(agent.agentId, { ...wakeFor(agent), v: 2, shard: 7 }, { jobId: `${agent.uid}.1` });
  await installation.startWorker();
  await takenAtLeast(queue, `${agent.uid}.1`, 2);
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
  expect(await queue.getFailedCount()).toBe(0);
});

test("a wake that no version could have sent stands as failed, for people to see", async () => {
  const installation = await openStage({ scenario });
  const queue = queueOf(installation);
  await installation.startWorker();
  for (const [i, data] of [{ v: 1 }, { v: "2" }, null].entries())
    await queue.add("odd", data, { jobId: `o.${i}` });
  await until(async () => (await queue.getFailedCount()) === 3);
});

test("a sweeper neither ends nor wakes a newer version's agents, and keeps their hints", async () => {
  const installation = await openStage({ timing: { ...SHORT_TIMING, maxAgeMs: 1 } });
  const { redis, keys, store, deadlines, wakes } = installation;
  const logger = createLogger({ level: "silent" });
  const workers = createWorkerDirectory(redis, keys);
  const sweeper = createSweeper({ store, deadlines, wakes, workers, clock: systemClock, logger });
  const idle = await installation.spawn({ idle_ms: 1 });
  const old = await waiting(installation, { deadline: "1" });
  const dead = await waiting(installation, { status: "running", lease_until: "1", deadline: "1" });
  const agents = [idle, old, dead];
  for (const agent of agents) {
    await redis.hset(keys.agent(agent).record, "v", "2");
    await redis.zadd(keys.deadlines, 1, deadlineMember(agent));
    await redis.hdel(keys.hintGrace, deadlineMember(agent));
  }
  const before = await Promise.all(agents.map((agent) => everythingOf(installation, agent)));
  expect(await sweeper.tick()).toBe(3);
  expect(await Promise.all(agents.map((agent) => everythingOf(installation, agent)))).toEqual(before);
  const scores = await Promise.all(
    agents.map((agent) => redis.zscore(keys.deadlines, deadlineMember(agent))),
  );
  for (const score of scores) expect(Number(score)).toBeGreaterThan(1);
  expect(await queueOf(installation).count()).toBe(0);

  for (const agent of agents) await redis.hset(keys.agent(agent).record, "v", "1");
  for (const agent of agents) {
    await until(
      async () => {
        await sweeper.tick();
        return (await installation.record(agent)).status === "ended";
      },
      { everyMs: 50 },
    );
  }
});

test.for([
  { what: "a log entry of a kind it does not know", unreadable: "log" },
  { what: "a message of a newer version", unreadable: "inbox" },
] as const)(
  "a run with $what is handed back, not counted as a death, and goes on when it can be read",
  async ({ unreadable }) => {
    const installation = await openStage({ scenario });
    const { redis, keys, wakes } = installation;
    const agent = await waiting(installation, {});
    const { log, inbox } = keys.agent(agent);
    const [message = ""] = await redis.lrange(inbox, 0, -1);
    if (unreadable === "log") await redis.hset(log, "0/vote", '{"v":2}');
    else await redis.lset(inbox, 0, message.replace('"v":1', '"v":2'));
    await installation.startWorker();
    await wakes.add(wakeFor(agent));
    const fields = () => redis.hgetall(keys.agent(agent).record);
    const released = await until(async () => {
      const now = await fields();
      return now.status === "queued" && now.attempts === "1" && now;
    });
    expect(released).toMatchObject({ crashes_without_progress: "0", released_epoch: released.epoch });
    if (unreadable === "log") await redis.hdel(log, "0/vote");
    else await redis.lset(inbox, 0, message);
    expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
  },
);

test("announcements of newer workers are left out of the list, and left where they are", async () => {
  const { redis, keys, ...installation } = await openStage();
  const worker = await installation.startWorker();
  await redis.sadd(keys.workers, "newer");
  await redis.set(keys.worker("newer"), JSON.stringify({ v: 2, id: "newer" }));
  const directory = createWorkerDirectory(redis, keys);
  const ids = await until(async () => {
    const live = (await directory.list()).map(({ id }) => id);
    return live.length > 0 && live;
  });
  expect(ids).toEqual([worker.id]);
  expect(await redis.smembers(keys.workers)).toContain("newer");
});
