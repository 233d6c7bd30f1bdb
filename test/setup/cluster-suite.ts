/** The test files that run once more on a real Redis Cluster of six nodes: everything that a cluster could change. */

/** Run by `npm run test:servers`: the verbs, the parent's calls on top of them, and workers from end to end. */
export const CLUSTER_SUBSET: readonly string[] = [
  "test/integration/origins/a.test.ts",
  "test/integration/producer/{managing,replies,spawn,task,waiting}.test.ts",
  "test/integration/verbs/{ack,claim,deadline-set,events,look,resent,run,send,settle,spawn,usage,wake-queue}.test.ts",
  "test/integration/worker/{conversation,destroy}.test.ts",
];

/** Files with clusters of their own that take their time: not in `npm test`. */
export const CLUSTER_LONG: readonly string[] = ["test/integration/cluster-silence.test.ts"];

/** Run by `npm run test:cluster`. */
export const CLUSTER_SUITE: readonly string[] = [
  ...CLUSTER_LONG,
  "test/integration/{origins,producer,service,verbs,worker}/**/*.test.ts",
];

const OWN_SERVERS =
  "starts single servers of its own; cluster-failover and cluster-trouble are its likes for clusters";

const ONE_SERVER = "stops what stands between a door and its one server";

/** Files of the suite that would show nothing on the shared cluster, and why. */
export const NOT_ON_A_CLUSTER: Readonly<Record<string, string>> = {
  "test/integration/producer/connections.test.ts": OWN_SERVERS,
  "test/integration/producer/redis-away.test.ts": OWN_SERVERS,
  "test/integration/producer/wake-queue.test.ts": OWN_SERVERS,
  "test/integration/service/acks.test.ts": ONE_SERVER,
  "test/integration/verbs/cluster.test.ts": OWN_SERVERS,
  "test/integration/verbs/full-memory.test.ts": OWN_SERVERS,
  "test/integration/verbs/lock.test.ts": ONE_SERVER,
  "test/integration/worker/killing.test.ts": OWN_SERVERS,
  "test/integration/worker/redis-outage.test.ts": OWN_SERVERS,
};
