/** Provides a six-node cluster for all tests of a file, repaired after each test, and clients on it. */
import { afterEach, beforeAll } from "vitest";
import { SHORT_TIMING, type Stage } from "../stage/stage.ts";
import type { RedisCluster } from "./cluster.ts";
import { started, testClient } from "./parents.ts";
import { startPrivateCluster } from "./redis.ts";

/** Time (ms) within which work must resume by itself after a failover. */
export const RESUMES_WITHIN_MS = 30_000;

const list = (pattern: string) => ({
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern } }],
});
/** The model calls two tools, then answers. */
const scenario = { turns: [list("a"), list("b"), { content: [{ type: "text" as const, text: "done" }] }] };

/** Registers hooks in the test file. The cluster can only be used inside tests. */
export function useCluster() {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startPrivateCluster();
  });
  afterEach(() => cluster.repair());
  return {
    get cluster() {
      return cluster;
    },
    onCluster: () => ({ redis: cluster, scenario, timing: SHORT_TIMING }),
    clientOf: ({ prefix }: Stage) =>
      started(testClient({ redisUrl: cluster.url, prefix, timing: SHORT_TIMING })),
  };
}

/** Returns the ms since `sinceMs`, a value of `performance.now()`, rounded. */
export function elapsed(sinceMs: number): number {
  return Math.round(performance.now() - sinceMs);
}
