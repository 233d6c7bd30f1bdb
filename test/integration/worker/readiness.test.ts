/** Guarantee: a worker's readiness tells why it cannot do its work, and settings that change under it do not end it. */
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { createPause } from "../../../src/shared/redis/pause.ts";
import { startPrivateRedis } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const scenario = { turns: [{ content: [{ type: "text" as const, text: "done" }] }] };

test("before its start, while it works, paused by an operator, and after its stop", async () => {
  const installation = await openStage({ scenario });
  const worker = await installation.startWorker();
  await until(async () => (await worker.readiness()).ready);
  const pause = createPause(installation.redis, installation.keys);
  await pause.pause("the budget is used up");
  expect(await worker.readiness()).toMatchObject({
    ready: false,
    redis: "ready",
    reasons: [expect.stringMatching(/^the installation is paused since \S+Z: the budget is used up$/)],
  });
  await pause.resume();
  expect(await worker.readiness()).toMatchObject({ ready: true, redis: "ready", reasons: [] });
  const stopped = worker.stop();
  expect((await worker.readiness()).reasons[0]).toBe("the worker is stopping");
  await stopped;
  expect(await worker.readiness()).toEqual({
    ready: false,
    redis: "away",
    reasons: ["the worker is not started"],
  });
});

test("a wake queue that a tool of BullMQ has paused is a reason", async () => {
  const installation = await openStage({ scenario });
  const worker = await installation.startWorker();
  await until(async () => (await worker.readiness()).ready);
  await installation.wakes.pause();
  expect(await worker.readiness()).toMatchObject({
    ready: false,
    redis: "ready",
    reasons: ["the wake queue itself was paused"],
  });
  await installation.wakes.resume();
  expect(await worker.readiness()).toMatchObject({ ready: true, reasons: [] });
});

test("a credential that the provider refuses is a reason", async () => {
  const refused = { error: { status: 401, type: "authentication_error", message: "invalid x-api-key" } };
  const installation = await openStage({ scenario: { turns: [refused] } });
  const worker = await installation.startWorker();
  const agent = await installation.task("work");
  expect(await installation.reply(agent)).toMatchObject({ status: "failed", stop_reason: "model_error" });
  expect((await worker.readiness()).reasons).toEqual([
    expect.stringMatching(/^the provider refuses the credential \(authentication\)/),
  ]);
});

test("in production mode a Redis that is careless after a reconnection makes it unready, loud and keeps it working", async () => {
  const server = await startPrivateRedis();
  const installation = await openStage({ redis: server, scenario });
  const lines: { level: number; msg: string }[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(JSON.parse(line)) } });
  const worker = await installation.startWorker({ strict: true, logger });
  await until(async () => (await worker.readiness()).ready);
  await installation.redis.config("SET", "appendonly", "no");
  await installation.redis.client("KILL", "TYPE", "normal", "SKIPME", "yes");
  await until(async () => !(await worker.readiness()).ready);
  await until(async () => (await worker.readiness()).reasons.join().includes("config set appendonly yes"));
  expect(lines.filter(({ msg }) => msg === "Redis must not be used as it is set")).toMatchObject([
    { level: 50 },
  ]);
  const agent = await installation.task("work");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
  await installation.redis.config("SET", "appendonly", "yes");
  await until(async () => (await worker.readiness()).ready);
});

test("in production mode nothing is written on a Redis that evicts", async () => {
  const server = await startPrivateRedis({ arguments: ["--maxmemory-policy", "allkeys-lru"] });
  const installation = await openStage({ redis: server });
  await expect(installation.startWorker({ strict: true })).rejects.toMatchObject({
    code: "invalid_config",
    message: expect.stringMatching(/config set maxmemory-policy noeviction/),
  });
  expect(await installation.redis.dbsize()).toBe(0);
});

test("a worker that starts on a read-only replica waits until that takes writes", async () => {
  const server = await startPrivateRedis();
  const installation = await openStage({ redis: server, scenario });
  await installation.redis.replicaof("127.0.0.1", 1);
  let hasStarted = false;
  const starting = installation.startWorker().then((worker) => {
    hasStarted = true;
    return worker;
  });
  await until(async () => String(await installation.redis.client("LIST")).includes("cmd=config"));
  expect(hasStarted).toBe(false);
  await installation.redis.replicaof("NO", "ONE");
  const worker = await starting;
  await until(async () => (await worker.readiness()).ready);
});

test("a Redis that no longer knows the worker's user is a reason by itself, and no Redis that does not answer", async () => {
  const server = await startPrivateRedis();
  const installation = await openStage({ redis: server, scenario });
  const allow = () =>
    installation.redis.acl("SETUSER", "guest", "on", ">canary", "allkeys", "allchannels", "+@all");
  await allow();
  const worker = await installation.startWorker({ redisUrl: server.url.replace("//", "//guest:canary@") });
  await until(async () => (await worker.readiness()).ready);
  await installation.redis.acl("DELUSER", "guest");
  await until(async () => !(await worker.readiness()).ready);
  await until(async () => (await worker.readiness()).reasons.join().includes("WRONGPASS"));
  expect(await worker.readiness()).toMatchObject({
    redis: "away",
    reasons: [expect.stringMatching(/^Redis refuses this connection \(WRONGPASS .*\): correct its address/)],
  });
  await allow();
  await until(async () => (await worker.readiness()).ready);
});
