/** What a backlog of the intake costs: requests without room are tried seldom, and jobs that wait for replies hold no place. */
import { type Job, Queue } from "bullmq";
import { expect, test, vi } from "vitest";
import { createJobTaker, type JobTaker } from "../../../src/service/intake/jobs.ts";
import { createIntakeQuota } from "../../../src/service/intake/quota.ts";
import type { Clock } from "../../../src/shared/clock.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { INTAKE_MAX_BYTES } from "../../../src/shared/protocol/intake.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { type IntakeJob, openIntakeJobs } from "../../../src/shared/redis/intake-jobs.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage, type Stage } from "../../stage/stage.ts";

/** Interval at which a process renews the locks of the jobs that wait in it. */
const RENEW_MS = 2_500;
const HOUR_MS = 3_600_000;

interface Taker extends JobTaker {
  lines: string[];
}

function openTaker(stage: Stage, clock: Clock = systemClock, most?: number): Taker {
  const lines: string[] = [];
  const logger = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });
  const client = stage.client();
  const quota = createIntakeQuota(client, clock, logger);
  const taker = createJobTaker({ client, quota, logger, ...(most !== undefined && { most }) });
  closeAtEnd(() => taker.leaveAll());
  return { ...taker, lines };
}

/** `sinceMs`: first failure of a job that has waited. */
const jobOf = (id: string, data: object, sinceMs?: number): IntakeJob => ({
  id,
  ...(sinceMs !== undefined && { wait: { since_ms: sinceMs } }),
  data: { prompt: "say hello", ...data },
});

/** Spawns as many agents as the parent may have; the answer destroys them. */
async function fillQuota(stage: Stage, parentId: string): Promise<() => Promise<void>> {
  const parent = stage.parent(parentId);
  const made: string[] = [];
  for (let i = 0; i < 10; i++) made.push((await parent.spawn({ name: "Idle" })).agent_id);
  return async () => {
    for (const agentId of made) await parent.destroy(agentId);
  };
}

/** Jobs of one parent, and when each comes again, as a queue keeps them. */
function openLine(taker: JobTaker, clock: ReturnType<typeof handClock>, count: number) {
  let waiting = Array.from({ length: count }, (_, i) => ({ id: `job-${i}`, atMs: 0 }));
  const taken = new Map<string, number>();
  const begun: string[] = [];
  return {
    taken,
    begun,
    /** Takes all that come due until `endMs`; resolves to how many takes that were. */
    async until(endMs: number): Promise<number> {
      let takes = 0;
      for (;;) {
        const due = waiting.filter(({ atMs }) => atMs <= clock.now());
        waiting = waiting.filter((each) => !due.includes(each));
        for (let at = 0; at < due.length; at += 100) {
          const round = due.slice(at, at + 100).map(async ({ id }) => {
            const end = await taker.take(jobOf(id, { parent_id: "full", reply: "channel" }));
            taken.set(id, (taken.get(id) ?? 0) + 1);
            if (end.status === "later") waiting.push({ id, atMs: clock.now() + end.delayMs });
            else begun.push(id);
          });
          await Promise.all(round);
        }
        takes += due.length;
        const nextMs = Math.min(...waiting.map(({ atMs }) => atMs));
        if (nextMs > endMs) return takes;
        clock.advance(nextMs - clock.now());
      }
    },
  };
}

test("of 1,000 jobs whose parent has no room ten a second are tried, and none leaves a trace", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  const destroyAll = await fillQuota(stage, "full");
  const deadlines = await stage.redis.zrange(stage.keys.deadlines, 0, -1);
  const clock = handClock();
  const taker = openTaker(stage, clock);
  const line = openLine(taker, clock, 1_000);
  expect(await line.until(400)).toBe(1_000);
  const tries = await line.until(60_400);
  expect(tries).toBeGreaterThan(550);
  expect(tries).toBeLessThanOrEqual(600);
  expect(line.begun).toEqual([]);
  expect(await stage.redis.zrange(stage.keys.deadlines, 0, -1)).toEqual(deadlines);
  expect(taker.lines).toEqual([expect.stringContaining("default/full")]);
  // Each comes in its turn: what has been tried stands behind the others.
  await line.until(102_000);
  expect([...line.taken.values()].filter((takes) => takes < 2)).toEqual([]);
  await destroyAll();
  await line.until(104_000);
  expect(line.begun).toHaveLength(10);
  expect(await stage.parent("full").list()).toHaveLength(10);
});

test("entries that meet no room at the same time leave nothing behind, and ten of them begin", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  const taker = openTaker(stage);
  const jobs = Array.from({ length: 50 }, (_, i) =>
    jobOf(`job-${i}`, { parent_id: "full", reply: "channel" }),
  );
  const ends = await Promise.all(jobs.map((job) => taker.take(job)));
  expect(ends.filter(({ status }) => status === "done")).toHaveLength(10);
  expect(ends.filter(({ status }) => status === "later")).toHaveLength(40);
  expect(await stage.redis.zcard(stage.keys.deadlines)).toBe(10);
});

test("agents whose idle time is over keep no job from beginning, also where no sweeper ends them", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  await fillQuota(stage, "full");
  const { live } = stage.keys.parent({ tenant: "default", parentId: "full" });
  const [life = ""] = await stage.redis.hvals(live);
  await stage.redis.del(life);
  const taker = openTaker(stage);
  const take = (id: string) => taker.take(jobOf(id, { parent_id: "full", reply: "channel" }));
  expect([(await take("first")).status, (await take("second")).status]).toEqual(["done", "later"]);
});

test("a job that was begun before finds its agent, also where its parent has no room for another", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  const jobs = Array.from({ length: 10 }, (_, i) =>
    jobOf(`job-${i}`, { parent_id: "full", reply: "channel" }),
  );
  const ends = await Promise.all(jobs.map((job) => openTaker(stage).take(job)));
  expect(ends.map(({ status }) => status)).toEqual(Array(10).fill("done"));
  const again = await Promise.all(jobs.map((job) => openTaker(stage).take(job)));
  expect(again).toEqual(ends);
});

function openJobs(stage: Stage, concurrency: number, clock: Clock = systemClock) {
  const { url, keys } = stage;
  const redis = openRedis(url, "worker");
  closeAtEnd(() => closeRedis(redis));
  const queue = new Queue(keys.intakeQueue, { connection: redis, prefix: keys.bullPrefix });
  closeAtEnd(() => queue.close());
  const taker = openTaker(stage);
  const lines: string[] = [];
  const jobs = openIntakeJobs(redis, keys, {
    take: taker.take,
    clock,
    logger: createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } }),
    concurrency,
  });
  const stop = async () => {
    taker.leaveAll();
    await jobs.stop();
  };
  closeAtEnd(stop);
  return { queue, jobs, lines, stop };
}

/** Waits until the lock of a job is renewed by its holder; `pass`: called again and again, lets its time pass. */
async function seeRenewed({ redis }: Stage, queue: Queue, { id }: Job, pass = () => {}): Promise<void> {
  const lock = `${queue.toKey(String(id))}:lock`;
  const token = await redis.get(lock);
  await redis.pexpire(lock, 6_000);
  const isRenewed = async () => {
    pass();
    return (await redis.pttl(lock)) > 6_000;
  };
  await until(isRenewed, { what: "the lock to be renewed" });
  expect(await redis.get(lock)).toBe(token);
}

test("jobs that wait for their replies hold no place: those of others begin, and each gets its reply", async () => {
  const stage = await openStage();
  const { queue, jobs } = openJobs(stage, 4);
  await jobs.start();
  const wish = { prompt: "say hello" };
  const ofA = await Promise.all(
    Array.from({ length: 4 }, () => queue.add("task", { ...wish, parent_id: "a", tenant: "a" })),
  );
  await until(
    async () => (await stage.redis.hlen(stage.keys.parent({ tenant: "a", parentId: "a" }).live)) === 4,
  );
  const ofB = await queue.add("task", { ...wish, parent_id: "b" });
  await until(async () => (await stage.parent("b").list()).length === 1, { what: "the job of B to begin" });
  // Until then they are held by this process, whose lock on each is renewed.
  await seeRenewed(stage, queue, ofB);
  expect(await queue.getActiveCount()).toBe(5);
  await stage.startWorker();
  for (const { id } of [...ofA, ofB]) {
    const ended = await until(async () => {
      const job = await queue.getJob(String(id));
      return job?.finishedOn !== undefined && job;
    });
    expect(ended.returnvalue).toMatchObject({ status: "succeeded", kind: "reply" });
  }
  const { replies } = stage.keys.parent({ tenant: "a", parentId: "a" });
  await until(async () => (await stage.redis.xlen(replies)) === 0, { what: "the replies to be acked" });
});

test("the lock of a job that waits is renewed also where none has waited for a while", async () => {
  const stage = await openStage();
  const clock = handClock();
  const { queue, jobs } = openJobs(stage, 4, clock);
  await jobs.start();
  const worker = await stage.startWorker();
  const wish = { prompt: "say hello", parent_id: "a" };
  await queue.add("task", wish);
  await until(async () => (await queue.getCompletedCount()) === 1, { what: "the first reply" });
  const { replies } = stage.keys.parent({ tenant: "default", parentId: "a" });
  await until(async () => (await stage.redis.xlen(replies)) === 0, { what: "its ack" });
  await worker.stop();
  clock.advance(RENEW_MS);
  const waiting = await queue.add("task", wish);
  await until(async () => (await stage.parent("a").list()).some(({ status }) => status === "queued"));
  await seeRenewed(stage, queue, waiting, () => clock.advance(RENEW_MS));
});

test("a process that stops gives a job that waits to the others at once", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  const { queue, jobs, stop } = openJobs(stage, 4);
  await jobs.start();
  const job = await queue.add("task", { prompt: "say hello", parent_id: "a" });
  await until(async () => (await stage.parent("a").list()).length === 1);
  await stop();
  expect(await job.getState()).toBe("waiting");
});

test("the reply of a job that somebody deleted while it waited is one line in the log", async () => {
  const stage = await openStage();
  const { queue, jobs, lines } = openJobs(stage, 4);
  await jobs.start();
  const { id } = await queue.add("task", { prompt: "say hello", parent_id: "a" });
  await until(async () => (await stage.parent("a").list()).length === 1);
  await stage.redis.del(queue.toKey(String(id)));
  await stage.startWorker();
  await until(() => lines.some((line) => line.includes("An intake job was not ended")));
});

test("a tenant whose jobs wait in as many places as it may have begins no more, but those that wait for nothing", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  const taker = openTaker(stage, handClock(), 2);
  const take = (parent_id: string, more: object = {}) => taker.take(jobOf(parent_id, { parent_id, ...more }));
  const [first, second] = [await take("a"), await take("b")];
  expect([first?.status, second?.status]).toEqual(["waits", "waits"]);
  const later = await Promise.all(Array.from({ length: 100 }, () => take("c")));
  expect(later.map(({ status }) => status)).toEqual(Array(100).fill("later"));
  // As many places become free at a time as replies come: they are not tried as seldom as the tasks of one parent.
  const delays = later.map((step) => (step.status === "later" ? step.delayMs : 0));
  expect(Math.max(...delays)).toBeLessThanOrEqual(1_000);
  expect(await stage.parent("c").list()).toEqual([]);
  expect((await take("d", { reply: "channel" })).status).toBe("done");
  expect((await take("e", { tenant: "other" })).status).toBe("waits");
  expect(taker.lines).toEqual([expect.stringContaining('"owner":"default"')]);
  // A job that was begun in another process has its agent, and perhaps its reply.
  const other = openTaker(stage, handClock(), 0);
  expect((await other.take(jobOf("a", { parent_id: "a" }))).status).toBe("waits");
  // Each reply makes room for one.
  const [agent] = await stage.parent("a").list();
  await stage.parent("a").destroy(agent?.agent_id ?? "");
  expect(first?.status === "waits" && (await first.end)).toMatchObject({ status: "replied" });
  expect([(await take("f")).status, (await take("g")).status]).toEqual(["waits", "later"]);
});

test("a job for which there has been no room for a day is refused", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  await fillQuota(stage, "full");
  const dayAgo = Date.now() - 24 * HOUR_MS;
  const take = (sinceMs: number) =>
    openTaker(stage).take(jobOf(`${sinceMs}`, { parent_id: "full", reply: "channel" }, sinceMs));
  expect(await take(dayAgo - HOUR_MS)).toMatchObject({
    status: "refused",
    error: { code: "quota_exceeded" },
  });
  expect(await take(dayAgo + HOUR_MS)).toMatchObject({
    status: "later",
    wait: { since_ms: dayAgo + HOUR_MS },
  });
});

test("a job waits for a day from its first failure by Redis' clock, whatever its sender and its host say", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  await fillQuota(stage, "full");
  const twoDaysAhead = { ...systemClock, now: () => Date.now() + 48 * HOUR_MS };
  const { queue, jobs } = openJobs(stage, 4, twoDaysAhead);
  const data = { prompt: "say hello", reply: "channel" };
  const options: object[] = [
    ...[{}, { timestamp: new Date().toUTCString() }, { timestamp: 1_000 * Date.now() }, { timestamp: 1 }],
    { delay: 72 * HOUR_MS },
  ];
  const added: Job[] = [];
  for (const each of options) added.push(await queue.add("task", { ...data, parent_id: "full" }, each));
  await added.at(-1)?.promote();
  await added[1]?.updateProgress(9e15);
  await added[2]?.updateProgress({ since_ms: 9e15 });
  const begun = await queue.add("task", { ...data, parent_id: "free" });
  await jobs.start();
  const stateOf = ({ id }: Job) => queue.getJobState(String(id));
  await until(async () => (await stateOf(begun)) === "completed", { what: "the job that has room" });
  for (const job of added) {
    await until(async () => (await stateOf(job)) === "delayed", { what: "the delay" });
    const { progress } = (await queue.getJob(String(job.id))) ?? {};
    expect(progress).toEqual({ since_ms: expect.any(Number) });
    expect(Math.abs(Number(Object(progress).since_ms) - Date.now())).toBeLessThan(HOUR_MS);
  }
  const [first] = added;
  await first?.updateProgress({ since_ms: Date.now() - 25 * HOUR_MS });
  await first?.promote();
  await until(async () => first && (await stateOf(first)) === "failed", { what: "the refusal" });
  expect((await queue.getJob(String(first?.id)))?.failedReason).toContain("quota_exceeded");
});

test("a job whose scheduler has times of another library is refused with the reason, and not taken again", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  const { url, keys } = stage;
  const redis = openRedis(url, "worker");
  closeAtEnd(() => closeRedis(redis));
  const settings = { repeatStrategy: async () => Date.now() };
  const sender = new Queue(keys.intakeQueue, { connection: redis, prefix: keys.bullPrefix, settings });
  closeAtEnd(() => sender.close());
  const data = { prompt: "say hello", parent_id: "a" };
  await sender.upsertJobScheduler("other", { pattern: "RRULE:FREQ=DAILY" }, { name: "task", data });
  const { jobs } = openJobs(stage, 4);
  await jobs.start();
  await until(async () => (await sender.getFailedCount()) === 1, { what: "the refusal" });
  const [failed] = await sender.getFailed();
  expect(failed?.failedReason).toMatch(/invalid_input.*its scheduler has no times that can be read/);
  expect(await stage.parent("a").list()).toEqual([]);
});

test("a job whose next one BullMQ cannot plan is refused once, whatever its options lack or have too much", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  const { queue, jobs } = openJobs(stage, 4);
  const hourly = { pattern: "0 * * * *" };
  const options = [
    ...[{}, { repeat: {} }, { repeat: { ...hourly, immediately: true, startDate: Date.now() } }],
    { repeat: hourly, debounce: { id: "other" } },
    { repeat: hourly, prevMillis: 9e15 },
  ];
  for (const each of options) {
    const { id } = await queue.add("task", { prompt: "say hello", parent_id: "a" });
    await stage.redis.hset(queue.toKey(String(id)), { rjk: "other", opts: JSON.stringify(each) });
  }
  await jobs.start();
  await until(async () => (await queue.getFailedCount()) >= options.length, { what: "the refusals" });
  for (const { failedReason } of await queue.getFailed()) expect(failedReason).toMatch(/its scheduler/);
  expect(await stage.parent("a").list()).toEqual([]);
});

test("a job that Redis refuses is tried again, after ten seconds at most", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  await stage.redis.set(
    stage.keys.parent({ tenant: "default", parentId: "stuck" }).live,
    "of the wrong kind",
  );
  const step = await openTaker(stage).take(jobOf("old", { parent_id: "stuck" }, Date.now() - HOUR_MS));
  expect(step).toMatchObject({ status: "later", delayMs: 10_000 });
});

test("a request that room would not help is refused at once", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  await fillQuota(stage, "full");
  const wish = { parent_id: "full", limits: { max_turns: 10 }, profile: { limits: { max_turns: 5 } } };
  expect(await openTaker(stage).take(jobOf("wide", wish))).toMatchObject({
    status: "refused",
    error: { code: "invalid_input" },
  });
});

test("a job of a schedule is tried until the next one comes due, whatever else waits for its parent", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  await fillQuota(stage, "full");
  const schedule_id = "hourly";
  await stage.parent("full").schedule({ schedule_id, prompt: "say hello", every_ms: 3_600_000 });
  const taker = openTaker(stage);
  const backlog = Array.from({ length: 200 }, (_, i) => taker.take(jobOf(`job-${i}`, { parent_id: "full" })));
  await Promise.all(backlog);
  const jobId = `repeat:default/full/${schedule_id}:${Date.now() + 3_600_000}`;
  const due = await taker.take(jobOf(jobId, { parent_id: "full" }));
  expect(due).toMatchObject({ status: "later", wait: { until_ms: expect.any(Number) } });
  expect(due.status === "later" ? due.delayMs : undefined).toBeLessThanOrEqual(10_000);
});

test.for([
  [
    "longer than any request",
    `{"prompt":"${"x".repeat(3 * INTAKE_MAX_BYTES)}"}`,
    /has more than 786432 bytes/,
  ],
  ["of a million lists", `{"prompt":${"[".repeat(1_000_000)}`, /nests deeper than 32 levels/],
] as const)("the data of a job is not parsed where it is %s", async ([, data, sentence]) => {
  const stage = await openStage({ timing: LONG_TIMING });
  const { queue, jobs } = openJobs(stage, 4);
  const job = await queue.add("report", {}, { delay: 3_600_000 });
  await stage.redis.hset(queue.toKey(String(job.id)), "data", data);
  await job.promote();
  const parse = vi.spyOn(JSON, "parse");
  await jobs.start();
  const failed = await until(() => stage.redis.hget(queue.toKey(String(job.id)), "failedReason"));
  const longest = Math.max(...parse.mock.calls.map(([text]) => text.length));
  parse.mockRestore();
  expect(failed).toMatch(sentence);
  expect(longest).toBeLessThan(INTAKE_MAX_BYTES);
});
