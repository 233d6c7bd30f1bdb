import { availableParallelism } from "node:os";
import { globSync } from "tinyglobby";
import { defineConfig } from "vitest/config";
import { CLUSTER_LONG, CLUSTER_SUBSET, CLUSTER_SUITE, NOT_ON_A_CLUSTER } from "./test/setup/cluster-suite.ts";
import { EMBEDDED_SUBSET } from "./test/setup/embedded-subset.ts";
import Schedule, { SHARING_A_PROCESS, SOLITARY } from "./test/setup/schedule.ts";
import { findServerBinary, NEED_A_SERVER } from "./test/setup/server-binary.ts";

const hasServer = findServerBinary() !== undefined;
const leftOut = hasServer ? [] : NEED_A_SERVER;
// They need programs that `npm run test:doors` installs first.
const doors = process.env.SUBAGENT_TEST_DOORS === "whole" ? [] : ["test/doors/long/**"];
const never = ["**/node_modules/**", "test/**/fixtures/**", ...CLUSTER_LONG, ...doors, ...leftOut];

const clusterFiles = process.env.SUBAGENT_TEST_CLUSTER === "whole" ? CLUSTER_SUITE : CLUSTER_SUBSET;

// `--project redis` asked for by name runs every file, each in a process of its own.
const isAskedFor = process.argv.some((argument) => /^(--project=)?redis$/.test(argument));
const shared = isAskedFor
  ? []
  : globSync([...SHARING_A_PROCESS], { ignore: [...never, ...Object.keys(SOLITARY)] });

const cores = availableParallelism();
const setup = { globalSetup: ["test/setup/redis-server.ts"] };
/** Most of these files wait for leases, timers and Redis: two beside each other leave a core idle. */
const sharing = { isolate: false, maxWorkers: 2 * Math.max(2, cores) };
/** Most of these start processes that compute. */
const isolated = { maxWorkers: 1 + Math.max(2, cores), sequence: { groupOrder: 1 } };
/** Fork bombs and floods: they would take the time that other files measure. */
const disturbing = ["test/integration/tools/{hostile-*,start-kills}.test.ts"];

export default defineConfig({
  test: {
    pool: "forks",
    setupFiles: ["test/setup/seed.ts", "test/setup/leak-check.ts", "test/setup/cpu-meter.ts"],
    reporters: ["default", "./test/setup/slowest-files.ts", "./test/setup/closing-line.ts"],
    sequence: { sequencer: Schedule },
    // Tests assert states, not times: a bound only ends what hangs, also on a machine that has other things to do.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    projects: [
      {
        extends: true,
        test: {
          ...setup,
          ...sharing,
          name: "shared-process",
          include: shared,
        },
      },
      {
        extends: true,
        test: {
          ...setup,
          ...isolated,
          name: "redis",
          include: ["test/**/*.test.ts"],
          exclude: [...never, ...shared, ...disturbing],
        },
      },
      {
        extends: true,
        test: {
          ...setup,
          name: "disturbing",
          include: disturbing,
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        test: { ...setup, ...sharing, name: "embedded", include: [...EMBEDDED_SUBSET] },
      },
      {
        extends: true,
        test: {
          ...setup,
          ...sharing,
          name: "cluster",
          include: [...clusterFiles],
          exclude: [...Object.keys(NOT_ON_A_CLUSTER), ...(hasServer ? [] : clusterFiles)],
        },
      },
    ],
  },
});
