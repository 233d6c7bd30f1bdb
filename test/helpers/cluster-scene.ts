/** A six-node cluster for all tests of a file, sound again after each, and what is opened on it. */
import { afterEach, beforeAll } from "vitest";
import { SHORT_TIMING, type Stage } from "../stage/stage.ts";
import type { RedisCluster } from "./cluster.ts";
import { started, testClient } from "./parents.ts";
import { startPrivateCluster } from "./redis.ts";

/** After a failover work goes on by itself within this time, ms. */
export const RESUMES_WITHIN_MS = 30_000;

const list = (pattern: string) => ({
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern } }],
});
/** Two tool calls and an answer. */
const scenario = { turns: [list("a"), list("b"), { content: [{ type: "text" as const, text: "done" }] }] };

/** Registers the hooks of the file; the cluster can be used within tests. */
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

/** Whole ms since `sinceMs` of `performance.now()`. */
export function elapsed(sinceMs: number): number {
  return Math.round(performance.now() - sinceMs);
}
