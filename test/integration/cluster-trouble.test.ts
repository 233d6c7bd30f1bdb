/**
 * Guarantees of a cluster beside the failover under load: what is away is said within a second, what is silent is given
 * up, everything comes back by itself, and a failover that loses the last writes hangs nobody.
 */
import { inspect } from "node:util";
import type { Cluster, Redis } from "ioredis";
import { expect, test } from "vitest";
import { openConnection } from "../../src/producer/redis-call.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { createLogger } from "../../src/shared/logger.ts";
import { agentOf } from "../../src/shared/protocol/keys.ts";
import {
  canSend,
  closeRedis,
  dropRedis,
  openRedis,
  whenAccepted,
} from "../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { caughtUp } from "../helpers/cluster.ts";
import { elapsed, RESUMES_WITHIN_MS, useCluster } from "../helpers/cluster-scene.ts";
import { reportTime } from "../helpers/figures.ts";
import { heldModel } from "../helpers/held-model.ts";
import { latch } from "../helpers/latch.ts";
import { refusal, testClient, testParent } from "../helpers/parents.ts";
import { runHere } from "../helpers/program.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";
import { freePort } from "../helpers/redis-server.ts";
import { livedTime } from "../helpers/second.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";

/** The nodes that ioredis' cluster client knows. */
interface Pool {
  reset(nodes: { host: string; port: number }[]): void;
  getNodes(): Redis[];
}

/** A reply that takes longer (ms) never comes. */
const HANGS_AFTER_MS = 120_000;

/** The slot of the key `x`. */
const SLOT_OF_X = 16_287;

const scene = useCluster();
const { onCluster, clientOf } = scene;

test("one node of a cluster is no server, and a server is no cluster: both are refused with the fix", async () => {
  const [node] = scene.cluster.servers;
  const asServer = testClient({ redisUrl: node?.url ?? "" });
  const fix = /write redis\+cluster:\/\/host:port/;
  await expect(asServer.start()).rejects.toMatchObject(refusal("invalid_config", fix));
  // Some of these parents' keys lie elsewhere; a client that was never started says the same.
  const spawns = ["a", "b", "c", "d", "e", "f"].map((parentId) =>
    testParent(asServer, { parentId }).spawn({ name: "x" }),
  );
  const refused = (await Promise.allSettled(spawns)).flatMap((one) =>
    one.status === "rejected" ? [one.reason] : [],
  );
  expect(refused.length).toBeGreaterThan(0);
  for (const reason of refused) expect(reason).toMatchObject(refusal("invalid_config", fix));
  const installation = await openStage({ redis: scene.cluster });
  await expect(installation.startWorker({ redisUrl: node?.url ?? "" })).rejects.toMatchObject(
    refusal("invalid_config", fix),
  );
  const asCluster = testClient({ redisUrl: redisUrl().replace("redis://", "redis+cluster://") });
  await expect(asCluster.start()).rejects.toMatchObject(
    refusal("redis_unavailable", /no cluster: write redis:\/\/host:port/),
  );
});

test("in production mode one master without an append-only file is enough to be refused, whichever is asked first", async () => {
  const { master: unsafe } = await scene.cluster.holderOf("x");
  await unsafe.ask("CONFIG", "SET", "appendonly", "no");
  const fix = refusal("invalid_config", /append-only file.*config set appendonly yes/);
  for (let i = 0; i < 8; i += 1) {
    const client = testClient({ redisUrl: scene.cluster.url, strict: true });
    await expect(client.start()).rejects.toMatchObject(fix);
    await client.stop();
  }
  const installation = await openStage({ redis: scene.cluster });
  await expect(installation.startWorker({ strict: true })).rejects.toMatchObject(fix);
  await unsafe.ask("CONFIG", "SET", "appendonly", "yes");
  await installation.startWorker({ strict: true });
});

test.for(["connecting", "reconnecting", "ready"])(
  "what waits for a cluster is rejected when a %s connection is closed",
  async (status) => {
    const nobody = `redis+cluster://127.0.0.1:${await freePort()},127.0.0.1:${await freePort()}`;
    const redis = openRedis(status === "ready" ? scene.cluster.url : nobody, "worker");
    await until(() => redis.status === status, { everyMs: 0, what: status });
    if (status === "ready") for (const server of scene.cluster.servers) server.freeze();
    const waiting = redis.get("x");
    closeRedis(redis);
    await expect(waiting).rejects.toThrow(/closed|ended|available/);
    await expect(redis.get("x")).rejects.toThrow(/closed|ended/);
  },
);

test("a client that has just given up all nodes is not asked before it has found them again", async () => {
  const redis = openRedis(scene.cluster.url, "producer");
  closeAtEnd(() => closeRedis(redis));
  await whenAccepted(redis);
  expect(canSend(redis)).toBe(true);
  const back = new Promise((resolve) => redis.once("ready", resolve));
  dropRedis(redis);
  expect(canSend(redis)).toBe(false);
  await back;
  expect(canSend(redis)).toBe(true);
});

test("a connection to a node that is gone counts no more as silent: the one in its place does", async () => {
  const logger = createLogger({ level: "silent" });
  const connection = openConnection(scene.cluster.url, "producer", systemClock, logger);
  closeAtEnd(() => connection.close());
  // Its time goes on only while somebody waits.
  const waiting = connection.time.after(60_000, () => {});
  closeAtEnd(() => waiting.cancel());
  await whenAccepted(connection.redis);
  const isHeardSince = async (ms: number) => {
    const nodes = (connection.redis as Cluster).nodes();
    await Promise.allSettled(nodes.map((node) => node.ping()));
    return connection.silentSinceMs() > ms;
  };
  await until(() => isHeardSince(0), { what: "all nodes" });
  await scene.cluster.servers[0]?.ask("CLIENT", "KILL", "TYPE", "normal");
  const killedMs = connection.time.nowMs;
  await until(() => isHeardSince(killedMs), { timeoutMs: 20_000, what: "all nodes again" });
});

test("a client that is closed between two attempts to connect, and knows nodes again, announces its end", async () => {
  const redis = openRedis(scene.cluster.url, "worker");
  await whenAccepted(redis);
  const pool = Reflect.get(redis, "connectionPool") as Pool;
  const reconnecting = new Promise((resolve) => redis.once("reconnecting", resolve));
  dropRedis(redis);
  await reconnecting;
  // What an answer about the slot table does that comes only now.
  pool.reset(scene.cluster.servers.map(({ port }) => ({ host: "127.0.0.1", port })));
  const nodesEnded = pool.getNodes().map((node) => new Promise((resolve) => node.once("end", resolve)));
  const ended = new Promise((resolve) => redis.once("end", resolve));
  const waiting = redis.get("x");
  closeRedis(redis);
  await expect(waiting).rejects.toThrow(/closed|ended|available/);
  await ended;
  // What its nodes announce after it changes nothing.
  await Promise.all(nodesEnded);
  expect(redis.status).toBe("end");
});

test("a client that is closed while a node sends its command elsewhere ends, and connects to no node again", async () => {
  const redis = openRedis(scene.cluster.url, "worker");
  closeAtEnd(() => closeRedis(redis));
  await whenAccepted(redis);
  const { master } = await scene.cluster.holderOf("x");
  const other = (redis as Cluster).nodes("master").find(({ options }) => options.port !== master.port);
  const slots = Reflect.get(redis, "slots") as string[][];
  slots[SLOT_OF_X] = [`${other?.options.host}:${other?.options.port}`];
  const ended = new Promise((resolve) => redis.once("end", resolve));
  // Redis answers MOVED before it sees that the connection has ended.
  const waiting = redis.get("x");
  closeRedis(redis);
  // Calls decide by these words whether to ask again over a new connection.
  await expect(waiting).rejects.toThrow(/^Connection is closed\.$/);
  await ended;
  expect((redis as Cluster).nodes()).toEqual([]);
  await expect(redis.get("x")).rejects.toThrow(/closed/);
});

test("a node that left the slot table and came back before its connection had ended is closed with the client", async () => {
  const redis = openRedis(scene.cluster.url, "worker");
  closeAtEnd(() => closeRedis(redis));
  await whenAccepted(redis);
  const [server, ...others] = scene.cluster.servers;
  const addressOf = ({ port = 0 } = {}) => ({ host: "127.0.0.1", port });
  const opened = async () =>
    ((await server?.ask("CLIENT", "LIST")) ?? "").split("subagent-queue-worker").length - 1;
  await until(async () => (await opened()) === 1);
  // What ioredis does with two slot tables in a row, the first one without that node.
  const pool = Reflect.get(redis, "connectionPool") as Pool;
  const dropped = pool.getNodes().find(({ options }) => options.port === server?.port);
  pool.reset(others.map(addressOf));
  pool.reset([server, ...others].map(addressOf));
  await until(() => dropped?.status === "end");
  expect(pool.getNodes()).toHaveLength(6);
  await until(async () => (await opened()) === 1);
  closeRedis(redis);
  await until(async () => (await opened()) === 0);
});

test("while the whole cluster is away producers say so within a second; workers wait, and go on by themselves", async () => {
  const installation = await openStage({ ...onCluster(), latencyMs: 400 });
  const worker = await installation.startWorker();
  const client = await clientOf(installation);
  const parent = testParent(client);
  const tasks = await Promise.all([1, 2, 3].map((i) => parent.spawn({ name: `early ${i}` })));
  for (const { agent_id } of tasks) await parent.send(agent_id, `look ${agent_id}`);
  const replies = parent.waitAll(tasks.map(({ agent_id }) => agent_id));
  const { ledger } = installation.offline;
  await until(() => new Set(ledger.map(({ conversation }) => conversation)).size === tasks.length);
  await Promise.all(scene.cluster.servers.map((server) => server.kill()));
  for (let i = 0; i < 5; i += 1) {
    const lived = livedTime();
    await expect(parent.spawn({ name: "late" })).rejects.toMatchObject({ retryable: true });
    reportTime("a spawn while the cluster is away", lived.ms, 1_000);
  }
  const awayMs = performance.now();
  await until(() => elapsed(awayMs) > 3_000);
  await scene.cluster.repair();
  const soundMs = performance.now();
  expect((await replies).map(({ status, turns }) => [status, turns])).toEqual(
    tasks.map(() => ["succeeded", 3]),
  );
  await until(() => parent.task({ prompt: "after" }));
  process.stdout.write(`whole cluster away: work done ${elapsed(soundMs)} ms after it was sound again\n`);
  reportTime("work after the cluster was sound again", elapsed(soundMs), RESUMES_WITHIN_MS);
  await until(async () => (await worker.readiness()).ready, { what: "a worker that is ready again" });
});

test.each(["at once", "when the cluster is down"])(
  "a command that needs a part of the cluster which no node serves ends and names the reason, asked %s",
  async (when) => {
    const { keys, prefix } = await openStage({ redis: scene.cluster });
    const { master, replica } = await scene.cluster.holderOf(keys.parents);
    const [asked] = scene.cluster.servers.filter((server) => server !== master && server !== replica);
    await Promise.all([master.kill(), replica?.kill()]);
    const isDown = async () => (await asked?.ask("CLUSTER", "INFO"))?.includes("cluster_state:fail");
    if (when !== "at once") await until(isDown, { what: "a cluster that is down" });
    const env = { REDIS_URL: scene.cluster.url, SUBAGENT_PREFIX: prefix };
    const { code, stderr } = await runHere(["ps"], { cwd: "/", env });
    expect(code).toBe(3);
    expect(stderr.at(-1)).toMatch(
      /takes no commands \((?:CLUSTERDOWN |a node of the cluster is away, and none has taken its place\))/,
    );
  },
);

test("a failover that loses the last writes hangs nobody, and the same request keys work again", async () => {
  const installation = await openStage({ ...onCluster(), latencyMs: 100 });
  const client = await clientOf(installation);
  const parent = testParent(client, { parentId: `planner-${uniquePrefix()}` });
  const { live } = installation.keys.parent({ tenant: parent.tenant, parentId: parent.parentId });
  const { master, replica } = await scene.cluster.holderOf(live);
  if (!replica) throw new Error("a master without a replica");
  const kept = await parent.spawn({ name: "kept", request_key: "kept" });
  await caughtUp(master, replica);
  // Not with -9: what is fsynced slowly may still stand in its buffer.
  await replica.kill("SIGTERM");
  // Acknowledged by the master, and by nobody else.
  const lost = await parent.spawn({ name: "lost", request_key: "lost" });
  expect(await parent.send(kept.agent_id, "look")).toMatchObject({ status: "queued" });
  const task = parent.task({ prompt: "look", request_key: "lost-task" });
  const ended = task.then(
    () => "replied",
    (error: { code: string }) => error.code,
  );
  await until(async () => (await parent.list()).length === 3);
  await master.kill();
  await replica.start();
  await scene.cluster.takenOver(live, master);
  const promotedMs = performance.now();
  // The task's agent is gone: whoever waits for it is told.
  expect(await ended).toBe("unknown_agent");
  process.stdout.write(
    `lost writes: the waiting task was told ${elapsed(promotedMs)} ms after the promotion\n`,
  );
  expect((await parent.list()).map(({ agent_id }) => agent_id)).toEqual([kept.agent_id]);
  await expect(parent.send(lost.agent_id, "look")).rejects.toMatchObject({ code: "unknown_agent" });
  await installation.startWorker();
  expect(await parent.spawn({ name: "lost", request_key: "lost" })).toMatchObject({
    agent_id: lost.agent_id,
  });
  expect(await parent.task({ prompt: "look", request_key: "lost-task" })).toMatchObject({
    status: "succeeded",
  });
  for (const { agent_id } of [kept, lost]) await parent.send(agent_id, "look");
  for (const { agent_id } of [kept, lost])
    expect(await parent.waitAny([agent_id])).toMatchObject({ status: "succeeded", turns: 3 });
});

test("a run whose claim and turns were lost is done again, and replies once", async () => {
  const installation = await openStage(onCluster());
  const { offline, keys } = installation;
  const client = await clientOf(installation);
  const lost = latch();
  // The run is at its third call when its two turns are lost.
  let atThird = 0;
  const model = heldModel(installation, ({ messages }) => {
    if (JSON.parse(`[${messages}]`).length < 5) return undefined;
    atThird += 1;
    return lost.opened;
  });
  const shared = await scene.cluster.holderOf(keys.deadlines);
  const held = async (parentId: string) =>
    scene.cluster.holderOf(keys.parent({ tenant: "default", parentId }).live);
  const ids = Array.from({ length: 50 }, (_, i) => `planner-${i}`);
  let parentId = "";
  for (const id of ids) if ((await held(id)).master !== shared.master) parentId = id;
  const { master, replica } = await held(parentId);
  if (!replica) throw new Error("a master without a replica");
  const parent = testParent(client, { parentId });
  const { agent_id } = await parent.spawn({ name: "noter", keep_alive: true });
  await parent.send(agent_id, "look");
  await caughtUp(master, replica);
  await replica.kill("SIGTERM");
  const worker = await installation.startWorker({ model });
  await until(() => atThird > 0, { what: "the third call" });
  expect(offline.ledger).toHaveLength(2);
  await master.kill();
  lost.open();
  await replica.start();
  await scene.cluster.takenOver(keys.parent({ tenant: "default", parentId }).live, master);
  const promotedMs = performance.now();
  const reply = await parent.waitAny([agent_id], { timeout_ms: HANGS_AFTER_MS }).catch(async (failure) => {
    const { store, redis, wakes } = installation;
    const at = { tenant: "default", parentId };
    const seen = {
      record: await store.record(agentOf(at, (await store.uidOf(at, agent_id)) ?? "unknown")),
      deadlines: await redis.zrange(keys.deadlines, 0, -1, "WITHSCORES"),
      wakes: await wakes.counts(),
      readiness: await worker.readiness(),
    };
    throw new Error(`no reply: ${inspect(seen, { depth: 4 })}`, { cause: failure });
  });
  expect(reply).toMatchObject({ status: "succeeded", turns: 3 });
  process.stdout.write(
    `lost turns: done again ${elapsed(promotedMs)} ms after the promotion, ${offline.ledger.length} calls for 3 turns\n`,
  );
  expect(offline.ledger.length).toBeGreaterThan(3);
  reportTime("lost turns done again", elapsed(promotedMs), RESUMES_WITHIN_MS);
  await until(() => worker.active().length === 0);
  expect((await parent.newReplies()).text).toBe("");
  expect(await parent.get(agent_id)).toMatchObject({ status: "idle" });
});
