/** Guarantee: a node of a cluster that nobody asks is idle: it makes no call of other nodes late, and none that waits for its slot. */
import type { Cluster } from "ioredis";
import { expect, test } from "vitest";
import { CALL_BUDGET_MS, createRedisCalls, openConnection } from "../../src/producer/redis-call.ts";
import { createLogger } from "../../src/shared/logger.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { latch } from "../helpers/latch.ts";
import { startPrivateRedis } from "../helpers/redis.ts";
import { freePort } from "../helpers/redis-server.ts";
import { until } from "../helpers/until.ts";
import { createManualClock } from "../unit/cli/manual-clock.ts";

/** Calls that may be under way on one connection. */
const MAX_CALLS = 256;
/** A key of the second master. */
const KEY = "x";
/** A key of the first master. */
const OTHER_KEY = "bar";

/** Starts a cluster of two masters with half of the slots each; returns its URL and servers. */
async function startTwoNodes() {
  const slots = [
    ["0", "8191"],
    ["8192", "16383"],
  ] as const;
  const nodes = await Promise.all(
    slots.map(async (range, i) => {
      const busPort = `${await freePort()}`;
      const as = [
        "--cluster-enabled",
        "yes",
        "--cluster-announce-ip",
        "127.0.0.1",
        "--cluster-port",
        busPort,
      ];
      const server = await startPrivateRedis({ arguments: as });
      const connection = openConnection(server.url, "worker", createManualClock(), silent());
      closeAtEnd(() => connection.close());
      const { redis } = connection;
      await redis.call("CLUSTER", "SET-CONFIG-EPOCH", `${i + 1}`);
      await redis.call("CLUSTER", "ADDSLOTSRANGE", ...range);
      return { redis, server, port: `${server.port}`, busPort };
    }),
  );
  const [one, other] = nodes;
  await one?.redis.call("CLUSTER", "MEET", "127.0.0.1", other?.port ?? "", other?.busPort ?? "");
  const isSound = async () =>
    (await Promise.all(nodes.map(async (each) => String(await each.redis.call("CLUSTER", "INFO"))))).every(
      (info) => info.includes("cluster_state:ok"),
    );
  await until(isSound);
  return { url: `redis+cluster://127.0.0.1:${one?.port}`, servers: nodes.map(({ server }) => server) };
}

const silent = () => createLogger({ level: "silent" });

test("while one node answers and another is silent, a call waits for its slot longer than a call may take", async () => {
  const { cluster, clock, connection, servers } = await openTwoNodes();
  const { call } = createRedisCalls(connection);
  const all = latch();
  const first = Array.from({ length: MAX_CALLS }, () => call(() => all.opened));
  const waiting = call(({ read }) => read(() => cluster.get(KEY))).then(
    (value) => ({ value }),
    (error: Error) => error.message,
  );
  servers[0]?.freeze();
  const unanswered = cluster.get(OTHER_KEY).catch(() => {});
  await askFor(2 * CALL_BUDGET_MS, cluster, clock);
  all.open();
  await Promise.all(first);
  expect(await waiting).toEqual({ value: null });
  connection.close();
  await unanswered;
});

test("while its node answers others, a late call is sent once, and an idle node keeps its socket", async () => {
  const { cluster, clock, connection, servers } = await openTwoNodes();
  const { call } = createRedisCalls(connection);
  const sockets = cluster.nodes().map(({ stream }) => stream);
  let sent = 0;
  /** A call that is answered after three quarters of its time; `meanwhile` happens shortly before half of it. */
  const lateCall = async (meanwhile: () => void = () => {}) => {
    const answer = latch();
    const late = call(({ read }) =>
      read(() => {
        sent += 1;
        return answer.opened;
      }),
    );
    await askFor(CALL_BUDGET_MS / 2 - 50, cluster, clock);
    meanwhile();
    await askFor(CALL_BUDGET_MS / 4, cluster, clock);
    answer.open();
    await late;
  };
  await lateCall();
  expect(sent).toBe(1);
  let unanswered: Promise<unknown> | undefined;
  await lateCall(() => {
    servers[0]?.freeze();
    unanswered = cluster.get(OTHER_KEY).catch(() => {});
  });
  expect(sent).toBe(2);
  // The node that was asked before this call, and not for it, is silent all the time.
  await lateCall();
  expect(sent).toBe(3);
  expect(sockets.filter(({ destroyed }) => destroyed)).toHaveLength(0);
  connection.close();
  await unanswered;
});

test("a node that leaves a call unanswered is silent from then on, and its socket alone is dropped", async () => {
  const { cluster, clock, connection, servers } = await openTwoNodes();
  const { call } = createRedisCalls(connection);
  await askFor(CALL_BUDGET_MS, cluster, clock);
  const sockets = cluster.nodes().map(({ stream }) => stream);
  for (const server of servers) server.freeze();
  const unanswered = call(({ read }) => read(() => cluster.get(KEY))).catch((error: unknown) => error);
  await pass(CALL_BUDGET_MS / 2 - 50, clock);
  expect(sockets.filter(({ destroyed }) => destroyed)).toHaveLength(0);
  await pass(100, clock);
  expect(sockets.filter(({ destroyed }) => destroyed)).toHaveLength(1);
  await pass(CALL_BUDGET_MS, clock);
  expect(await unanswered).toMatchObject({ code: "redis_unavailable" });
});

/** Opens a producer's connection to two masters that are both ready. */
async function openTwoNodes() {
  const { url, servers } = await startTwoNodes();
  const clock = createManualClock();
  const connection = openConnection(url, "producer", clock, silent());
  closeAtEnd(() => connection.close());
  const cluster = connection.redis as Cluster;
  await until(
    () => cluster.nodes().length === 2 && cluster.nodes().every(({ status }) => status === "ready"),
  );
  return { cluster, clock, connection, servers };
}

/** Lets time pass while one of the nodes answers. */
async function askFor(
  ms: number,
  cluster: Cluster,
  clock: ReturnType<typeof createManualClock>,
): Promise<void> {
  for (let passedMs = 0; passedMs < ms; passedMs += 50) {
    await cluster.get(KEY);
    await pass(50, clock);
  }
}

async function pass(ms: number, clock: ReturnType<typeof createManualClock>): Promise<void> {
  for (let passedMs = 0; passedMs < ms; passedMs += 50) {
    clock.advance(50);
    await new Promise(setImmediate);
  }
}
