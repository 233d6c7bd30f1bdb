/**
 * Guarantees on a cluster that takes no commands: a worker's connection waits without hurry, the check of the servers says why,
 * and a worker stops all the same.
 */
import { expect, test } from "vitest";
import { closeRedis, openRedis } from "../../src/shared/redis/connection/connection.ts";
import { checkServers } from "../../src/shared/redis/connection/server-check.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { reportTime } from "../helpers/figures.ts";
import { startPrivateRedis } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";

const KEY = "x";
/** A slot that the test takes away from the cluster, which then refuses all commands. */
const SLOT = "0";
const ATTEMPTS = 3;
/** Least time between two attempts on average: a timer may fire a little early. */
const LEAST_MS = 400;

/** Starts a cluster of one node. `admin` asks that node itself; `goDown` takes a slot away from the cluster, `comeUp` gives it back. */
async function scene() {
  const node = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
  const server = await startPrivateRedis({ arguments: node });
  const admin = openRedis(server.url, "worker");
  closeAtEnd(() => closeRedis(admin));
  const hasState = (state: string) =>
    until(async () => String(await admin.call("CLUSTER", "INFO")).includes(`cluster_state:${state}`));
  await admin.call("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
  await hasState("ok");
  return {
    admin,
    url: server.url.replace("redis://", "redis+cluster://"),
    async goDown() {
      await admin.call("CLUSTER", "DELSLOTS", SLOT);
      await hasState("fail");
    },
    async comeUp() {
      await admin.call("CLUSTER", "ADDSLOTS", SLOT);
    },
  };
}

test("a part of the cluster that no node serves is a trouble, and what waits is sent twice a second", async () => {
  const { admin, url, goDown, comeUp } = await scene();
  const redis = openRedis(url, "worker");
  closeAtEnd(() => closeRedis(redis));
  await until(async () => (await redis.get(KEY)) === null);
  expect((await checkServers(redis)).troubles).toEqual([]);
  await goDown();
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
  await comeUp();
  expect(await waiting).toBeNull();
});

test("a worker stops although the cluster refuses to take it out of the directory", async () => {
  const { url, goDown, comeUp } = await scene();
  const stage = await openStage({ redis: { url } });
  const worker = await stage.startWorker();
  // What still hangs when the test fails ends with this.
  closeAtEnd(comeUp);
  await goDown();
  const beganMs = performance.now();
  let isStopped = false;
  void worker.stop().then(() => {
    isStopped = true;
  });
  await until(() => isStopped, { what: "a worker that has stopped" });
  reportTime("the stop of an idle worker on a cluster that is down", performance.now() - beganMs, 10_000);
});
