/** What keeps an intake entry or job from its outcome is met a bounded number of times, and then it is told. */
import { FlowProducer, Queue } from "bullmq";
import { expect, test } from "vitest";
import { createClient } from "../../../src/producer/client.ts";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { createIntakeStream } from "../../../src/shared/redis/intake-stream.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const GROUP = "workers";
const DELIVERIES = 5;
const LONG_AGO_MS = 60_000;
const MORE_THAN_A_DAY_MS = 25 * 3_600_000;

const SILENT = createLogger({ level: "silent" });

async function startIntake(stage: Stage, client = stage.client(), logger = SILENT): Promise<void> {
  const { url: redisUrl, prefix } = stage;
  const intake = createIntake({ redisUrl, prefix, client, logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
}

/** A client whose choice of a model breaks: an error that is none of this package. */
const brokenClient = (stage: Stage) =>
  stage.client({
    model: () => {
      throw new TypeError("the choice of a model is broken");
    },
  });

const add = async ({ redis, keys }: Stage, id: string, ...fields: string[]) =>
  String(await redis.xadd(keys.intake, id, ...fields));

const pending = async ({ redis, keys }: Stage): Promise<unknown[][]> =>
  redis.xpending(keys.intake, GROUP, "-", "+", 10).then(
    (found) => found as unknown[][],
    () => [],
  );

/** As if its reader had had it for a minute, after `deliveries` in all. */
const leave = async ({ redis, keys }: Stage, id: string, deliveries: number) =>
  redis.xclaim(keys.intake, GROUP, "dead", 0, id, "IDLE", LONG_AGO_MS, "RETRYCOUNT", deliveries);

const channel = async (stage: Stage, parentId: string) =>
  until(async () => {
    const { entries } = await stage.parent(parentId).newReplies();
    return entries.length > 0 && entries;
  });

const FOR_THE_CHANNEL = { parent_id: "counted", prompt: "say hello", reply: "channel" };

/** The queue as any client of BullMQ opens it. */
function intakeQueue({ url, keys }: Stage): Queue {
  const connection = openRedis(url, "worker");
  closeAtEnd(() => closeRedis(connection));
  const queue = new Queue(keys.intakeQueue, { connection, prefix: keys.bullPrefix });
  closeAtEnd(() => queue.close());
  return queue;
}

test("an entry that meets an error without an explanation is tried again, and refused at its last delivery", async () => {
  const stage = await openStage();
  await startIntake(stage, brokenClient(stage));
  const id = await add(stage, "*", "parent_id", "unlucky", "prompt", "say hello", "request_key", "mine");
  await until(async () => (await pending(stage)).some(([each, , , times]) => each === id && times === 1));
  await leave(stage, id, DELIVERIES - 1);
  const [reply] = await channel(stage, "unlucky");
  expect(reply).toMatchObject({ status: "failed", stop_reason: "refused", message_ids: ["mine"] });
  expect(reply).toMatchObject({ error: expect.stringContaining("choice of a model is broken") });
  await until(async () => (await stage.redis.xlen(stage.keys.intake)) === 0);
});

test("an entry that ended its readers is delivered no more: it is set aside unread, and stays for the operator", async () => {
  const stage = await openStage();
  const { redis, keys } = stage;
  await redis.xgroup("CREATE", keys.intake, GROUP, "0", "MKSTREAM");
  const id = await add(stage, "*", "parent_id", "poisoned", "prompt", "say hello");
  await redis.xreadgroup("GROUP", GROUP, "dead", "STREAMS", keys.intake, ">");
  await leave(stage, id, DELIVERIES);
  const lines: string[] = [];
  const logger = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });
  await startIntake(stage, stage.client(), logger);
  const [[, fields] = ["", []]] = await until(async () => {
    const found = await redis.xrange(keys.intakeRefused, "-", "+");
    return found.length > 0 && found;
  });
  expect(fields).toEqual(["entry", id, "reason", expect.stringContaining("delivered 5 times")]);
  await until(async () => (await pending(stage)).length === 0);
  expect(await redis.xrange(keys.intake, id, id)).toHaveLength(1);
  await until(() => lines.length > 0);
  expect(lines).toEqual([expect.stringContaining(id)]);
  expect(await stage.parent("poisoned").list()).toEqual([]);
});

test("a reader that leaves with an entry in hand leaves it for others", async () => {
  const stage = await openStage();
  const [redis, blocking] = ["first", "second"].map(() => openRedis(stage.url, "worker"));
  if (!redis || !blocking) throw new Error("two connections");
  closeAtEnd(() => closeRedis(redis));
  closeAtEnd(() => closeRedis(blocking));
  const id = await add(stage, "*", "parent_id", "left", "prompt", "say hello");
  const stream = createIntakeStream(redis, blocking, stage.keys, { consumer: "leaving", logger: SILENT });
  expect(await stream.read()).toMatchObject([{ id }]);
  await stream.leave();
  expect(await pending(stage)).toMatchObject([[id, "leaving", expect.any(Number), 1]]);
  await stream.done(id);
  await stream.leave();
  expect(await stage.redis.xinfo("CONSUMERS", stage.keys.intake, GROUP)).toEqual([]);
});

test("an entry that waits for Redis is not counted as one without an outcome", async () => {
  const stage = await openStage();
  const away = createClient({ redisUrl: "redis://127.0.0.1:1", prefix: stage.prefix });
  closeAtEnd(() => away.stop());
  await startIntake(stage, away);
  const fresh = await add(stage, "*", "parent_id", "patient", "prompt", "say hello");
  await until(async () => (await pending(stage)).some(([id, , , times]) => id === fresh && times === 0));
  expect(await stage.redis.xlen(stage.keys.intakeRefused)).toBe(0);
});

test("an entry for which Redis refuses something is tried again for a day, then its parent is told", async () => {
  const stage = await openStage();
  const { live } = stage.keys.parent({ tenant: "default", parentId: "stuck" });
  await stage.redis.set(live, "of the wrong kind");
  await startIntake(stage);
  const aDayAgo = `${Date.now() - MORE_THAN_A_DAY_MS}-1`;
  await add(stage, aDayAgo, "parent_id", "stuck", "prompt", "say hello", "request_key", "old");
  const fresh = await add(stage, "*", "parent_id", "stuck", "prompt", "say hello", "request_key", "new");
  expect(await channel(stage, "stuck")).toMatchObject([{ status: "failed", message_ids: ["old"] }]);
  await until(async () => (await pending(stage)).some(([id, , , times]) => id === fresh && times === 0));
});

test("entries that wait for Redis hold up none that another reader left behind", async () => {
  const stage = await openStage();
  const { redis, keys } = stage;
  await redis.set(keys.parent({ tenant: "default", parentId: "stuck" }).live, "of the wrong kind");
  await redis.xgroup("CREATE", keys.intake, GROUP, "0", "MKSTREAM");
  const ids: string[] = [];
  for (let i = 0; i < 40; i++) ids.push(await add(stage, "*", "parent_id", "stuck", "prompt", "say hello"));
  ids.push(await add(stage, "*", "parent_id", "behind", "prompt", "say hello"));
  await redis.xreadgroup("GROUP", GROUP, "dead", "STREAMS", keys.intake, ">");
  await redis.xclaim(keys.intake, GROUP, "dead", 0, ...ids, "IDLE", LONG_AGO_MS);
  await startIntake(stage);
  await until(async () => (await stage.parent("behind").list()).length === 1);
});

test("a job that meets an error without an explanation fails with it after a minute", async () => {
  const stage = await openStage();
  const queue = intakeQueue(stage);
  const wish = { parent_id: "unlucky", prompt: "say hello" };
  const [old, fresh] = [await queue.add("task", wish), await queue.add("task", wish)];
  await old.updateProgress({ since_ms: Date.now() - LONG_AGO_MS });
  await startIntake(stage, brokenClient(stage));
  const failed = await until(async () => {
    const job = await queue.getJob(String(old.id));
    return job?.finishedOn !== undefined && job;
  });
  expect(failed.failedReason).toMatch(/protocol_violation.*choice of a model is broken/);
  expect((await queue.getJob(String(fresh.id)))?.finishedOn).toBeUndefined();
});

test("a job whose counter is no number is taken without it", async () => {
  const stage = await openStage();
  const { redis, keys } = stage;
  const queue = intakeQueue(stage);
  await queue.add("task", FOR_THE_CHANNEL, { jobId: "counted" });
  const job = keys.intakeJob("counted");
  await redis.hset(job, "ats", "many");
  await startIntake(stage);
  await until(async () => (await redis.hexists(job, "ats")) === 0);
  // As if the lock of the first attempt had expired; a later one must keep its lock.
  await redis.del(`${job}:lock`);
  await until(async () => (await redis.hexists(job, "finishedOn")) === 1, { timeoutMs: 60_000 });
});

test("what is no job leaves the intake queue before BullMQ's check for stalled jobs ends at it", async () => {
  const stage = await openStage();
  const queue = intakeQueue(stage);
  await queue.add("task", FOR_THE_CHANNEL, { jobId: "text" });
  await stage.redis.set(stage.keys.intakeJob("text"), "no job");
  await startIntake(stage);
  // The check looks at a job when its lock has expired; this one stays.
  await until(async () => (await stage.redis.persist(`${stage.keys.intakeJob("text")}:lock`)) === 1);
  await until(async () => (await stage.redis.llen(queue.toKey("active"))) === 0);
});

test("a job whose counter or parent BullMQ cannot use at its end has its outcome, and one of a flow tells its parent", async () => {
  const stage = await openStage();
  const { redis, keys } = stage;
  const options = { connection: redis, prefix: keys.bullPrefix };
  const [queue, flows] = [new Queue(keys.intakeQueue, options), new FlowProducer(options)];
  const above = new Queue("above", options);
  for (const each of [queue, flows, above]) closeAtEnd(() => each.close());
  const written = [
    { field: "atm", value: "many" },
    { field: "atm", value: "007" },
    { field: "parent", value: "5" },
    { field: "parent", value: '{"id":"1"}' },
    { field: "parent", value: '{"id":{},"queueKey":[]}' },
    { field: "parent", value: '{"id":"\\ud800","queueKey":"a"}' },
    { field: "parentKey", value: "nobody" },
  ];
  for (const [i, { field, value }] of written.entries()) {
    await queue.add("task", "no request", { jobId: `written-${i}` });
    await redis.hset(keys.intakeJob(`written-${i}`), field, value);
  }
  const data = { parent_id: "flow", prompt: "say hello", reply: "channel" };
  await flows.add({
    name: "above",
    queueName: "above",
    children: [{ name: "task", queueName: keys.intakeQueue, data }],
  });
  await startIntake(stage);
  await until(async () => (await queue.getFailedCount()) === written.length);
  await until(async () => (await above.getWaitingCount()) === 1);
  expect(await queue.getActiveCount()).toBe(0);
});
