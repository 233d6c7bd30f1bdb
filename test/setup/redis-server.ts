import type { TestProject } from "vitest/node";
import { startEmbeddedRedis } from "../../src/cli/local/embedded-redis.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { heavyPackages } from "../helpers/bundle.ts";
import { startCluster } from "../helpers/cluster.ts";
import { startRedisServer } from "../helpers/redis-server.ts";
import { findServerBinary } from "./server-binary.ts";

/**
 * Makes what the programs of the tests share, starts the one Redis of the run, tells the test files where it is, and returns its end. A real `redis-server`, in the
 * project `on-cluster` six of them, but in the project of the embedded one, with `SUBAGENT_TEST_REDIS=embedded`, and where there is no `redis-server`: there it is
 * the one that users without any Redis get.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Here, once, and not by each process that comes to need them.
  await heavyPackages();
  const wanted = project.name.endsWith("embedded") || process.env.SUBAGENT_TEST_REDIS === "embedded";
  if (wanted || findServerBinary() === undefined) {
    const embedded = await startEmbeddedRedis({ clock: systemClock, nodeArguments: ["--import", "tsx"] });
    project.provide("redisUrl", embedded.url);
    return () => embedded.stop();
  }
  if (project.name === "on-cluster") {
    // Of all files at once: a node that a busy machine keeps waiting is not replaced, and loses nothing.
    const cluster = await startCluster(["--cluster-replica-no-failover", "yes"]);
    project.provide("redisUrl", cluster.url);
    return () => cluster.stop();
  }
  const server = await startRedisServer();
  project.provide("redisUrl", server.url);
  project.provide("redisSocket", server.socketPath);
  return () => server.stop();
}
