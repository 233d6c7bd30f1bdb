import { availableParallelism } from "node:os";
import { globSync } from "tinyglobby";
import { defineConfig } from "vitest/config";
import { CLUSTER_LONG, CLUSTER_SUITE, NOT_ON_A_CLUSTER } from "./test/setup/cluster-suite.ts";
import { RARELY_OPTIMIZED } from "./test/setup/rarely-optimized.ts";
import Schedule, { SOLITARY } from "./test/setup/schedule.ts";
import { findServerBinary, NEED_A_SERVER } from "./test/setup/server-binary.ts";

const hasServer = findServerBinary() !== undefined;
const leftOut = hasServer ? [] : NEED_A_SERVER;
// `npm test` runs everything but `on-*`: where no Redis can be started, the embedded one is what the verbs are tested on.
const embedded = hasServer ? "on-embedded" : "embedded";
// They need programs that `npm run test:doors` installs first.
const doors = process.env.SUBAGENT_TEST_DOORS === "whole" ? [] : ["test/doors/long/**"];
const EVERY_FILE = "test/**/*.test.ts";
const ON_THE_EMBEDDED_SERVER = "test/on-the-embedded-server.test.ts";
const ON_A_CLUSTER = "test/on-a-cluster.test.ts";
const never = [
  ON_THE_EMBEDDED_SERVER,
  ON_A_CLUSTER,
  "**/node_modules/**",
  "test/**/fixtures/**",
  ...CLUSTER_LONG,
  ...doors,
  ...leftOut,
];

const clusterFiles = process.env.SUBAGENT_TEST_CLUSTER === "whole" ? CLUSTER_SUITE : [ON_A_CLUSTER];

// `--project redis` asked for by name runs every file, each in a process of its own.
const isAskedFor = process.argv.some((argument) => /^(--project=)?redis$/.test(argument));
/** Fork bombs: nothing runs beside them. */
const disturbing = isAskedFor ? [] : ["test/integration/tools/hostile-forks.test.ts"];
const shared = isAskedFor
  ? []
  : globSync(EVERY_FILE, { ignore: [...never, ...disturbing, ...Object.keys(SOLITARY)] });

const setup = { globalSetup: ["test/setup/redis-server.ts"] };
/** Most files wait for leases, timers and processes for two thirds of their time: with fewer a core is often idle. */
const maxWorkers = 3 * Math.max(2, availableParallelism());

export default defineConfig({
  // The examples import the package by its name.
  resolve: { tsconfigPaths: true },
  test: {
    pool: "forks",
    execArgv: [...RARELY_OPTIMIZED],
    maxWorkers,
    setupFiles: ["test/setup/seed.ts", "test/setup/leak-check.ts", "test/setup/cpu-meter.ts"],
    reporters: ["default", "./test/setup/slowest-files.ts", "./test/setup/closing-line.ts"],
    sequence: { sequencer: Schedule },
    // Tests assert states, not times: a bound only ends what hangs, also on a machine that has other things to do.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    projects: [
      { extends: true, test: { ...setup, name: "shared-process", isolate: false, include: shared } },
      {
        extends: true,
        test: {
          ...setup,
          name: "redis",
          include: [EVERY_FILE],
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
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: { ...setup, name: embedded, isolate: false, include: [ON_THE_EMBEDDED_SERVER] },
      },
      {
        extends: true,
        test: {
          ...setup,
          name: "on-cluster",
          isolate: false,
          include: [...clusterFiles],
          exclude: [...Object.keys(NOT_ON_A_CLUSTER), ...(hasServer ? [] : clusterFiles)],
        },
      },
    ],
  },
});
