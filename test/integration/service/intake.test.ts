/** Programs without this library hand work in: by one XADD, or as a job of BullMQ's own clients. */
import { type Job, Queue } from "bullmq";
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { createIntake, type Intake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import type { Reply } from "../../../src/shared/protocol/reply.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage, type Stage } from "../../stage/stage.ts";

async function startIntake(stage: Stage): Promise<Intake> {
  const { url: redisUrl, prefix } = stage;
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl, prefix, client: stage.client(), logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
  return intake;
}

/** An entry as any Redis client adds it; the answer is its id. */
function add(stage: Stage, fields: Readonly<Record<string, string>>): Promise<string | null> {
  return stage.redis.xadd(stage.keys.intake, "*", ...Object.entries(fields).flat());
}

/** Everything in the channel of a parent, acked. */
async function nextReplies(stage: Stage, parentId: string, count: number): Promise<Reply[]> {
  const replies: Reply[] = [];
  for await (const entry of stage.parent(parentId).replies()) {
    await entry.ack();
    if (entry.kind === "reply" || entry.kind === "ended") replies.push(entry);
    if (replies.length === count) break;
  }
  return replies;
}

function jobsOf(stage: Stage): Queue {
  const { keys } = stage;
  const redis = openRedis(stage.url, "worker");
  closeAtEnd(() => closeRedis(redis));
  const queue = new Queue(keys.intakeQueue, { connection: redis, prefix: keys.bullPrefix });
  closeAtEnd(() => queue.close());
  return queue;
}

/** The job when it has ended. Its record is asked: an event may come before the queue's events are read, and is then missed. */
function ended(queue: Queue, id = ""): Promise<Job> {
  return until(
    async () => {
      const job = await queue.getJob(id);
      return job?.finishedOn !== undefined && job;
    },
    { what: "the job to end" },
  );
}

test("one XADD becomes a task at once, and its reply comes into the parent's channel", async () => {
  // No sweeper finds it while the test waits.
  const stage = await openStage({ timing: LONG_TIMING });
  await stage.startWorker();
  await startIntake(stage);
  const id = await add(stage, {
    parent_id: "python",
    prompt: "say hello",
    name: "Greeter",
    tools: "read_file,grep",
  });
  const [reply] = await nextReplies(stage, "python", 1);
  expect(reply).toMatchObject({ agent_id: "greeter", status: "succeeded", parent_id: "python" });
  await until(async () => (await stage.redis.xlen(stage.keys.intake)) === 0, { what: `no entry ${id}` });
});

test("an entry narrows its agent in every way in which a spawn does", async () => {
  const stage = await openStage();
  await startIntake(stage);
  const permissions = { deny: ["bash(rm *)"] };
  await add(stage, {
    ...{ parent_id: "careful", prompt: "say hello", disallowed_tools: "grep,glob", skills: '["letters"]' },
    ...{ hooks: "audit", permissions: JSON.stringify(permissions), output_schema: '{"type":"object"}' },
    ...{ fallback_models: "claude-opus-5", transcript_ms: "60000" },
  });
  const parent = { tenant: "default", parentId: "careful" };
  const { call, store } = await internalsOf(stage.client()).open();
  const [record] = await until(async () => {
    const live = await call(({ read }) => read(() => store.liveRecords(parent)));
    return live.length === 1 && live;
  });
  expect(record?.spec).toMatchObject({
    ...{
      disallowed_tools: ["grep", "glob"],
      skills: ["letters"],
      hooks: ["audit"],
      permissions: [permissions],
    },
    ...{ output_schema: { type: "object" }, fallback_models: ["claude-opus-5"], transcript_ms: 60_000 },
  });
});

test("an intake that was stopped takes wishes again after its next start", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const intake = await startIntake(stage);
  await intake.stop();
  await add(stage, { parent_id: "again", prompt: "say hello" });
  await intake.start();
  expect(await nextReplies(stage, "again", 1)).toMatchObject([{ status: "succeeded" }]);
});

test("an entry that was there before any worker is handed over by the first", async () => {
  const stage = await openStage();
  await stage.startWorker();
  await add(stage, { parent_id: "early", prompt: "say hello" });
  await startIntake(stage);
  expect(await nextReplies(stage, "early", 1)).toMatchObject([{ status: "succeeded" }]);
});

test("an entry that a dead process had read is handed over by another, and one that was handed over is not done again", async () => {
  const stage = await openStage();
  const { keys, redis } = stage;
  await redis.xgroup("CREATE", keys.intake, "workers", "0", "MKSTREAM");
  const id = await add(stage, { parent_id: "crashed", prompt: "say hello", request_key: "once" });
  await redis.xreadgroup("GROUP", "workers", "dead", "STREAMS", keys.intake, ">");
  await stage.parent("crashed").spawn({ name: "other" });
  await redis.xclaim(keys.intake, "workers", "dead", 0, id ?? "", "IDLE", 60_000);
  await stage.startWorker();
  await startIntake(stage);
  await add(stage, { parent_id: "crashed", prompt: "say hello", request_key: "once" });
  const [reply] = await nextReplies(stage, "crashed", 1);
  expect(reply).toMatchObject({ agent_id: "task", status: "succeeded" });
  await until(async () => (await redis.xlen(keys.intake)) === 0);
  expect((await stage.parent("crashed").list()).map(({ agent_id }) => agent_id)).toEqual(["other"]);
});

test("a message goes to an agent that lives, and keep_alive makes one", async () => {
  const stage = await openStage();
  await stage.startWorker();
  await startIntake(stage);
  await add(stage, { parent_id: "shell", prompt: "say hello", name: "Reviewer", keep_alive: "1" });
  expect(await nextReplies(stage, "shell", 1)).toMatchObject([
    { agent_id: "reviewer", run: 1, agent_status: "idle" },
  ]);
  await add(stage, { parent_id: "shell", agent_id: "reviewer", prompt: "once more" });
  expect(await nextReplies(stage, "shell", 1)).toMatchObject([{ agent_id: "reviewer", run: 2 }]);
});

test("more tasks than a parent has room for all run, and hold up no other parent", async () => {
  const stage = await openStage({ latencyMs: 100 });
  await stage.startWorker();
  await startIntake(stage);
  for (let i = 0; i < 25; i++) await add(stage, { parent_id: "busy", prompt: `say ${i}` });
  await add(stage, { parent_id: "quiet", prompt: "say hello" });
  expect(await nextReplies(stage, "quiet", 1)).toMatchObject([{ status: "succeeded" }]);
  const replies = await nextReplies(stage, "busy", 25);
  expect(replies.map(({ status }) => status)).toEqual(Array(25).fill("succeeded"));
});

test.for([
  ["a field that there is not", { colour: "red" }, /has no field "colour"/],
  [
    "files",
    { files: '[{"path":"a","content":"b"}]' },
    /brings no files or images: put them into a directory/,
  ],
  ["limits that are no JSON", { limits: "{" }, /limits is no JSON/],
  ["permissions of 700,000 lists", { permissions: "[".repeat(700_000) }, /nests deeper than 32 levels/],
  ["tools of 350,000 numbers", { tools: `[${"1,".repeat(350_000)}1]` }, /has more than 20000 values/],
  ["tools of 350,000 names", { tools: "a,".repeat(350_000) }, /has more than 20000 values/],
  ["limits wider than allowed", { limits: '{"max_turns":31}' }, /max_turns/],
  ["the options of a parent, which a job alone may bring", { profile: "{}" }, /has no field "profile"/],
  ["a blank prompt", { prompt: " " }, /prompt/],
  ["an agent that there is not", { agent_id: "nobody" }, /unknown_agent/],
  ["a field's name of a megabyte", { ["x".repeat(1 << 20)]: "1" }, /has more than 786432 bytes/],
  ["too many fields", Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`f${i}`, "1"])), /32 fields/],
] as const)(
  "%s comes back to the parent as a failed reply, once and bounded",
  async ([, fields, sentence]) => {
    const stage = await openStage();
    await startIntake(stage);
    await add(stage, { parent_id: "wrong", request_key: "mine", prompt: "say hello", ...fields });
    const [reply] = await nextReplies(stage, "wrong", 1);
    expect(reply).toMatchObject({
      kind: "ended",
      status: "failed",
      stop_reason: "refused",
      message_ids: ["mine"],
    });
    expect(reply?.error).toMatch(sentence);
    expect(reply?.error?.length).toBeLessThan(1_100);
    await until(async () => (await stage.redis.xlen(stage.keys.intake)) === 0);
  },
);

test("an entry that names no parent is set aside for the operator", async () => {
  const stage = await openStage();
  await startIntake(stage);
  const id = await add(stage, { parent_id: "../etc", prompt: "say hello" });
  const [[, fields] = ["", []]] = await until(
    async () => {
      const found = await stage.redis.xrange(stage.keys.intakeRefused, "-", "+");
      return found.length > 0 && found;
    },
    { what: "the entry that was set aside" },
  );
  expect(fields.slice(0, 2)).toEqual(["entry", id]);
  expect(fields[3]).toMatch(/parent_id/);
});

test("a job that any client of BullMQ adds becomes a task, and its return value is the reply", async () => {
  const stage = await openStage();
  await stage.startWorker();
  await startIntake(stage);
  const queue = jobsOf(stage);
  const { id } = await queue.add("report", { parent_id: "bull", prompt: "say hello", name: "Reporter" });
  expect((await ended(queue, id)).returnvalue).toMatchObject({
    agent_id: "reporter",
    status: "succeeded",
    kind: "reply",
  });
  // It was taken out of the channel: nobody else is to wait for it.
  await until(
    async () =>
      (await stage.redis.xlen(stage.keys.parent({ tenant: "default", parentId: "bull" }).replies)) === 0,
  );
});

test("a job whose process stops waits on in another one, for the same agent", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  const first = await startIntake(stage);
  const queue = jobsOf(stage);
  const job = await queue.add("report", { parent_id: "moved", prompt: "say hello" });
  await until(async () => (await stage.parent("moved").list()).length === 1);
  await first.stop();
  // It was given back, not left until its lock expires.
  expect(await job.getState()).toBe("waiting");
  await startIntake(stage);
  await stage.startWorker();
  expect((await ended(queue, job.id)).returnvalue).toMatchObject({
    agent_id: "task",
    status: "succeeded",
  });
});

test("a job that cannot be read fails with a sentence, whatever its attempts", async () => {
  const stage = await openStage();
  await startIntake(stage);
  const queue = jobsOf(stage);
  const { id } = await queue.add("report", { parent_id: "bull", prompt: 7 }, { attempts: 3 });
  expect(await ended(queue, id)).toMatchObject({
    failedReason: expect.stringMatching(/invalid_input.*prompt/),
    attemptsMade: 1,
  });
});

test.for([
  ["no JSON", "{", /invalid_input.*must be an object/],
  [
    "nested a hundred thousand levels deep",
    `{"parent_id":"bull","prompt":"x","limits":${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}}`,
    /invalid_input.*nests deeper than 32 levels/,
  ],
  [
    "a list of 350,000 numbers",
    `{"parent_id":"bull","prompt":"x","tools":[${"1,".repeat(350_000)}1]}`,
    /invalid_input.*has more than 20000 values/,
  ],
] as const)("a job whose data is %s fails with a sentence, once", async ([, data, sentence]) => {
  const stage = await openStage();
  await startIntake(stage);
  const queue = jobsOf(stage);
  const job = await queue.add("report", {}, { delay: 3_600_000 });
  await stage.redis.hset(queue.toKey(String(job.id)), "data", data);
  await job.promote();
  const failed = await until(async () => {
    const [failedReason, ended] = await stage.redis.hmget(
      queue.toKey(String(job.id)),
      "failedReason",
      "finishedOn",
    );
    return ended != null && failedReason;
  });
  expect(failed).toMatch(sentence);
});

test("a job of another program whose options, progress or parent are no JSON is done without them, and blocks no other job", {
  timeout: 90_000,
}, async () => {
  const stage = await openStage();
  await stage.startWorker();
  const queue = jobsOf(stage);
  const ids: string[] = [];
  const add = async (field: string, value: string) => {
    const job = await queue.add("report", { parent_id: "bull", prompt: "x" });
    if (field !== "") await stage.redis.hset(queue.toKey(String(job.id)), field, value);
    ids.push(String(job.id));
  };
  await add("opts", "{");
  await add("opts", "null");
  await add("progress", "{");
  await add("parent", "{");
  await add("", "");
  await startIntake(stage);
  for (const id of ids)
    await until(async () => (await stage.redis.hget(queue.toKey(id), "finishedOn")) != null, {
      what: "the job to end",
      timeoutMs: 40_000,
    });
  for (const id of ids)
    expect(await stage.redis.hget(queue.toKey(id), "returnvalue")).toMatch(/"status":"succeeded"/);
});
