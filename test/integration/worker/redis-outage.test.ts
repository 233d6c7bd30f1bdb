/** Guarantee: a worker outlives its Redis; no run is lost, held for ever or answered twice. */
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { startProxy } from "../../helpers/proxy.ts";
import { FSYNC_NEVER, startPrivateRedis } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage, SHORT_TIMING } from "../../stage/stage.ts";

const list = (pattern: string) => ({
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern } }],
});
const scenario = {
  turns: [list("a"), list("b"), { content: [{ type: "text" as const, text: "done" }] }],
};

test.for([
  ["shorter", SHORT_TIMING.leaseMs / 5],
  ["longer", SHORT_TIMING.leaseMs * 2],
] as const)("runs go on after an outage %s than their lease, by the same process", async ([, downMs]) => {
  const server = await startPrivateRedis({ arguments: FSYNC_NEVER });
  const installation = await openStage({
    redis: server,
    scenario,
    latencyMs: 300,
    timing: SHORT_TIMING,
  });
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const worker = await installation.startWorker({ logger });
  const agents = await Promise.all([1, 2, 3, 4, 5].map((i) => installation.task(`work ${i}`)));
  await until(() => installation.offline.ledger.length >= 5);
  await server.kill();
  const downSinceMs = performance.now();
  const told = () => lines.filter((line) => line.includes("ECONNREFUSED") && line.includes("Wake queue"));
  await until(() => told().length > 0, { what: "the wake queue to tell of its trouble" });
  await until(() => performance.now() - downSinceMs >= downMs);
  expect(told()).toHaveLength(1);
  await server.start();
  const replies = await Promise.all(agents.map((agent) => installation.reply(agent)));
  expect(replies.map(({ status, turns }) => [status, turns])).toEqual(agents.map(() => ["succeeded", 3]));
  for (const agent of agents) expect(await installation.entries(agent)).toHaveLength(1);
  await until(() => worker.active().length === 0);
  const another = await installation.task("after the outage");
  expect(await installation.reply(another)).toMatchObject({ status: "succeeded" });
});

test.for([
  ["shorter", SHORT_TIMING.leaseMs / 2],
  ["longer", SHORT_TIMING.leaseMs * 2],
] as const)(
  "a Redis that refuses writes %s than a lease costs no run its answer",
  async ([how, refusedMs]) => {
    const server = await startPrivateRedis({ arguments: FSYNC_NEVER });
    const installation = await openStage({ redis: server, scenario, latencyMs: 300, timing: SHORT_TIMING });
    const { redis, offline } = installation;
    const lines: string[] = [];
    const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
    await installation.startWorker({ logger });
    const agents = await Promise.all([1, 2, 3, 4, 5].map((i) => installation.task(`work ${i}`)));
    await until(() => offline.ledger.length >= 5);
    await redis.config("SET", "min-replicas-to-write", "1");
    const sinceMs = performance.now();
    await until(() => lines.some((line) => line.includes("Redis refuses writes")));
    await until(() => performance.now() - sinceMs >= refusedMs);
    await redis.config("SET", "min-replicas-to-write", "0");
    const replies = await Promise.all(agents.map((agent) => installation.reply(agent)));
    expect(replies.map(({ status, turns }) => [status, turns])).toEqual(agents.map(() => ["succeeded", 3]));
    for (const agent of agents) expect(await installation.entries(agent)).toHaveLength(1);
    expect(lines.filter((line) => line.includes("broke off"))).toEqual([]);
    // After a lease another claim may come before the write that waits.
    if (how === "shorter") expect(offline.ledger).toHaveLength(agents.length * 3);
  },
);

test("a trouble of the wake queue that comes back after a wake was taken is told again", async () => {
  const installation = await openStage({
    redis: "own",
    scenario: { turns: [{ content: [{ type: "text", text: "done" }] }] },
  });
  const { redis } = installation;
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  await installation.startWorker({ logger });
  // A script's digest is no difference between two problems.
  const problems = () =>
    lines.flatMap((line) => {
      const { msg, problem } = JSON.parse(line);
      return String(msg).startsWith("Wake queue trouble") ? [String(problem).replace(/\S*\d\S*/g, "")] : [];
    });
  await redis.config("SET", "min-replicas-to-write", "1");
  await until(() => problems().length > 0, { what: "the wake queue to tell of its trouble" });
  const [first] = problems();
  await redis.config("SET", "min-replicas-to-write", "0");
  expect(await installation.reply(await installation.task("work"))).toMatchObject({ status: "succeeded" });
  await redis.config("SET", "min-replicas-to-write", "1");
  await until(() => problems().filter((problem) => problem === first).length === 2);
  await redis.config("SET", "min-replicas-to-write", "0");
});

test("a worker whose connections break in the handshake starts all the same", async () => {
  const server = await startPrivateRedis();
  const installation = await openStage({ redis: server, scenario });
  const proxy = await startProxy(server.port);
  proxy.pause();
  const starting = installation.startWorker({ redisUrl: `redis://127.0.0.1:${proxy.port}` });
  await until(() => proxy.held.includes("subagent-queue-subscriber"), { what: "the handshake to begin" });
  await until(() => proxy.open === 2);
  // What a connection could have sent before its handshake was answered is on its way by now.
  await new Promise((resolve) => setTimeout(resolve, 100));
  proxy.cutAll();
  proxy.resume();
  await starting;
  const agent = await installation.task("work");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
});

test("after a flush of its scripts Redis gets them again", async () => {
  const server = await startPrivateRedis();
  const installation = await openStage({ redis: server, scenario, latencyMs: 100 });
  await installation.startWorker();
  const agent = await installation.task("work");
  await until(() => installation.offline.ledger.length === 1);
  await installation.redis.script("FLUSH");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", turns: 3 });
});

test("a worker whose connections are cut by the server goes on with its runs", async () => {
  const server = await startPrivateRedis();
  const installation = await openStage({ redis: server, scenario, latencyMs: 200 });
  await installation.startWorker();
  const agents = await Promise.all([1, 2, 3].map((i) => installation.task(`work ${i}`)));
  await until(() => installation.offline.ledger.length >= 3);
  await installation.redis.client("KILL", "TYPE", "normal", "SKIPME", "yes");
  await installation.redis.client("KILL", "TYPE", "pubsub");
  for (const agent of agents) {
    expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", turns: 3 });
    expect(await installation.entries(agent)).toHaveLength(1);
  }
});

test("a lease that ran out while Redis did not answer is given back by its holder and counts as nobody's death", async () => {
  const server = await startPrivateRedis();
  const turns = [
    // The first call is never answered, the second one is.
    { ...list("a"), failures: [{ stream: { stallAfterChunks: 0 } }] },
    { content: [{ type: "text" as const, text: "done" }] },
  ];
  const installation = await openStage({
    redis: server,
    scenario: { turns },
    timing: SHORT_TIMING,
  });
  const worker = await installation.startWorker();
  const agent = await installation.task("work");
  await until(() => installation.offline.inFlight === 1, { what: "the first call" });
  const { epoch } = await installation.record(agent);
  server.freeze();
  await until(() => installation.offline.inFlight === 0, {
    what: "the end of the call at the end of the lease",
  });
  server.thaw();
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", turns: 2 });
  await until(() => worker.active().length === 0, { what: "the end of the run" });
  const after = await installation.record(agent);
  expect(after.crashes_without_progress).toBe(0);
  expect(after.epoch).toBeGreaterThan(epoch);
});
