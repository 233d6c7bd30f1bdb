/** Guarantee: calls that wait for a slot wait as long as any node of a cluster answers; a node that nobody asks is silent, not away. */
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
const KEY = "x";

/** Starts a cluster of two masters with half of the slots each; returns its URL. */
async function startTwoNodes(): Promise<string> {
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
      return { redis, port: `${server.port}`, busPort };
    }),
  );
  const [one, other] = nodes;
  await one?.redis.call("CLUSTER", "MEET", "127.0.0.1", other?.port ?? "", other?.busPort ?? "");
  const isSound = async () =>
    (await Promise.all(nodes.map(async (each) => String(await each.redis.call("CLUSTER", "INFO"))))).every(
      (info) => info.includes("cluster_state:ok"),
    );
  await until(isSound);
  return `redis+cluster://127.0.0.1:${one?.port}`;
}

const silent = () => createLogger({ level: "silent" });

test("while one node answers, a call waits for its slot longer than a call may take, and is answered", async () => {
  const clock = createManualClock();
  const connection = openConnection(await startTwoNodes(), "producer", clock, silent());
  closeAtEnd(() => connection.close());
  const cluster = connection.redis as Cluster;
  await until(
    () => cluster.nodes().length === 2 && cluster.nodes().every(({ status }) => status === "ready"),
  );
  const { run } = createRedisCalls(connection);
  const all = latch();
  const first = Array.from({ length: MAX_CALLS }, () => run(() => all.opened));
  const waiting = run(({ read }) => read(() => cluster.get(KEY))).then(
    (value) => ({ value }),
    (error: Error) => error.message,
  );
  for (let passedMs = 0; passedMs < 2 * CALL_BUDGET_MS; passedMs += 50) {
    await cluster.get(KEY);
    clock.advance(50);
    await new Promise(setImmediate);
  }
  all.open();
  await Promise.all(first);
  expect(await waiting).toEqual({ value: null });
});
