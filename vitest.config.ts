import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { CLUSTER_LONG, CLUSTER_SUBSET, CLUSTER_SUITE, NOT_ON_A_CLUSTER } from "./test/setup/cluster-suite.ts";
import { EMBEDDED_SUBSET } from "./test/setup/embedded-subset.ts";
import { findServerBinary, NEED_A_SERVER } from "./test/setup/server-binary.ts";

const hasServer = findServerBinary() !== undefined;
const leftOut = hasServer ? [] : NEED_A_SERVER;

const clusterFiles = process.env.SUBAGENT_TEST_CLUSTER === "whole" ? CLUSTER_SUITE : CLUSTER_SUBSET;

export default defineConfig({
  test: {
    pool: "forks",
    // Most files wait for other processes most of the time; by itself the runner leaves a core idle for its own work.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    setupFiles: ["test/setup/leak-check.ts"],
    reporters: ["default", "./test/setup/closing-line.ts"],
    testTimeout: 20_000,
    hookTimeout: 30_000,
    projects: [
      {
        extends: true,
        test: {
          name: "redis",
          include: ["test/**/*.test.ts"],
          exclude: ["**/node_modules/**", "test/**/fixtures/**", ...CLUSTER_LONG, ...leftOut],
          globalSetup: ["test/setup/redis-server.ts"],
        },
      },
      {
        extends: true,
        test: {
          name: "embedded",
          include: [...EMBEDDED_SUBSET],
          globalSetup: ["test/setup/redis-server.ts"],
        },
      },
      {
        extends: true,
        test: {
          name: "cluster",
          include: [...clusterFiles],
          exclude: [...Object.keys(NOT_ON_A_CLUSTER), ...(hasServer ? [] : clusterFiles)],
          globalSetup: ["test/setup/redis-server.ts"],
        },
      },
    ],
  },
});
