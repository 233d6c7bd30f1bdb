/** Guarantee: a worker's connection to a cluster that takes no commands waits without hurry, and the check of the servers says why. */
import { expect, test } from "vitest";
import { closeRedis, openRedis } from "../../src/shared/redis/connection/connection.ts";
import { checkServers } from "../../src/shared/redis/connection/server-check.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { startPrivateRedis } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";

const KEY = "x";
/** A slot that the test takes away from the cluster, which then refuses all commands. */
const SLOT = "0";
const ATTEMPTS = 3;
/** Least time between two attempts on average: a timer may fire a little early. */
const LEAST_MS = 400;

test("a part of the cluster that no node serves is a trouble, and what waits is sent twice a second", async () => {
  const node = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
  const server = await startPrivateRedis({ arguments: node });
  const admin = openRedis(server.url, "worker");
  closeAtEnd(() => closeRedis(admin));
  await admin.call("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
  const redis = openRedis(server.url.replace("redis://", "redis+cluster://"), "worker");
  closeAtEnd(() => closeRedis(redis));
  await until(async () => (await redis.get(KEY)) === null);
  expect((await checkServers(redis)).troubles).toEqual([]);
  await admin.call("CLUSTER", "DELSLOTS", SLOT);
  await until(async () => String(await admin.call("CLUSTER", "INFO")).includes("cluster_state:fail"));
  expect((await checkServers(redis)).troubles).toEqual([
    "The Redis Cluster takes no commands: a node of the cluster is away, and none has taken its place",
  ]);
  const refusals = async () =>
    Number(/^cmdstat_get:.*rejected_calls=(\d+)/m.exec(await admin.info("commandstats"))?.[1] ?? 0);
  const waiting = redis.get(KEY);
  await until(async () => (await refusals()) >= 1);
  const [before, beganMs] = [await refusals(), performance.now()];
  await until(async () => (await refusals()) >= before + ATTEMPTS);
  expect((performance.now() - beganMs) / ATTEMPTS).toBeGreaterThan(LEAST_MS * ((ATTEMPTS - 1) / ATTEMPTS));
  await admin.call("CLUSTER", "ADDSLOTS", SLOT);
  expect(await waiting).toBeNull();
});
