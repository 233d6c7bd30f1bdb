import type { TestProject } from "vitest/node";
import { startRedisServer } from "../helpers/redis-server.ts";

/** Starts the one Redis of the run, tells the test files where it is, and returns its end. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startRedisServer();
  project.provide("redisUrl", server.url);
  project.provide("redisSocket", server.socketPath);
  return () => server.stop();
}
