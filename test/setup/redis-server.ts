import type { TestProject } from "vitest/node";
import { startEmbeddedRedis } from "../../src/cli/local/embedded-redis.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { heavyPackages } from "../helpers/bundle.ts";
import { startCluster } from "../helpers/cluster.ts";
import { startRedisServer } from "../helpers/redis-server.ts";
import { findServerBinary } from "./server-binary.ts";

/**
 * Builds the packages that the tests' programs share, starts the project's Redis, provides its address to the test files, and
 * returns a function that stops it. The server is a real `redis-server`, or six in the project `on-cluster`. It is the embedded
 * server in the project of that name, with `SUBAGENT_TEST_REDIS=embedded`, and if the machine has no `redis-server`.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Done once here, so that no test process has to build them.
  await heavyPackages();
  const wanted = project.name.endsWith("embedded") || process.env.SUBAGENT_TEST_REDIS === "embedded";
  if (wanted || findServerBinary() === undefined) {
    const embedded = await startEmbeddedRedis({ clock: systemClock, nodeArguments: ["--import", "tsx"] });
    project.provide("redisUrl", embedded.url);
    return () => embedded.stop();
  }
  if (project.name === "on-cluster") {
    // All files share this cluster. Without failover, a node that is slow on a busy machine is not replaced and loses no data.
    const cluster = await startCluster(["--cluster-replica-no-failover", "yes"]);
    project.provide("redisUrl", cluster.url);
    return () => cluster.stop();
  }
  const server = await startRedisServer();
  project.provide("redisUrl", server.url);
  project.provide("redisSocket", server.socketPath);
  return () => server.stop();
}
