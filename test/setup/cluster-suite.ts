/** The test files that run once more on a real Redis Cluster of six nodes: everything that a cluster could change. */

/** Run by `npm test` too. */
export const CLUSTER_SUBSET: readonly string[] = [
  "test/integration/origins/a.test.ts",
  "test/integration/producer/{managing,replies,spawn,task,waiting}.test.ts",
  "test/integration/verbs/{ack,claim,deadline-set,look,resent,run,send,settle,spawn,usage,wake-queue}.test.ts",
  "test/integration/worker/{conversation,destroy,one-run,takeover}.test.ts",
];

/** Run by `npm run test:cluster`. */
export const CLUSTER_SUITE: readonly string[] = [
  "test/integration/{origins,producer,verbs,worker}/**/*.test.ts",
];

/** Files of the suite that make no sense on a shared cluster, and why. */
export const NOT_ON_A_CLUSTER: Readonly<Record<string, string>> = {};
