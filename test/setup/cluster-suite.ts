/** Lists the test files that also run on a real Redis Cluster of six nodes, because a cluster could change their result. */

/** Files that `npm run test:servers` runs: the verbs, the parent's calls that use them, and workers end to end. */
export const CLUSTER_SUBSET: readonly string[] = [
  "test/integration/origins/a.test.ts",
  "test/integration/producer/{managing,replies,spawn,task,waiting}.test.ts",
  "test/integration/verbs/{ack,claim,deadline-set,events,look,resent,run,send,settle,spawn,usage,wake-queue}.test.ts",
  "test/integration/worker/{conversation,destroy}.test.ts",
];

/** Slow files that start their own clusters; `npm test` leaves them out. */
export const CLUSTER_LONG: readonly string[] = ["test/integration/cluster-silence.test.ts"];

/** Files that `npm run test:cluster` runs. */
export const CLUSTER_SUITE: readonly string[] = [
  ...CLUSTER_LONG,
  "test/integration/{origins,producer,service,verbs,worker}/**/*.test.ts",
];

const OWN_SERVERS =
  "starts single servers of its own; cluster-failover and cluster-trouble are its likes for clusters";

const ONE_SERVER = "stops, slows or refuses what passes between a process and its one server";

const ONE_DATABASE = "a cluster has one database";

const ONE_CONNECTION = "the order of its calls is that of one connection";

/** Files of the suite that would test nothing on the shared cluster, each with the reason. */
export const NOT_ON_A_CLUSTER: Readonly<Record<string, string>> = {
  "test/integration/producer/connections.test.ts": OWN_SERVERS,
  "test/integration/producer/databases.test.ts": ONE_DATABASE,
  "test/integration/producer/failed-acks.test.ts": ONE_SERVER,
  "test/integration/producer/redis-away.test.ts": OWN_SERVERS,
  "test/integration/producer/start.test.ts": OWN_SERVERS,
  "test/integration/producer/task-all.about-to-begin.test.ts": ONE_CONNECTION,
  "test/integration/producer/wake-queue.test.ts": OWN_SERVERS,
  "test/integration/service/acks.test.ts": ONE_SERVER,
  "test/integration/service/board-life.unopened.test.ts": ONE_SERVER,
  "test/integration/service/mcp-errors.test.ts": ONE_SERVER,
  "test/integration/service/mcp-update.test.ts": ONE_SERVER,
  "test/integration/service/runs-cut-off.test.ts": ONE_SERVER,
  "test/integration/service/threads.slow-redis.test.ts": ONE_SERVER,
  "test/integration/service/webhook-slots.test.ts": ONE_SERVER,
  "test/integration/verbs/cluster.test.ts": OWN_SERVERS,
  "test/integration/verbs/full-memory.test.ts": OWN_SERVERS,
  "test/integration/verbs/lock.test.ts": ONE_SERVER,
  "test/integration/worker/killing.test.ts": OWN_SERVERS,
  "test/integration/worker/redis-outage.test.ts": OWN_SERVERS,
  "test/integration/worker/sweeping.refused.test.ts": ONE_SERVER,
};
