/** What a cluster could change, once more on a Redis Cluster of six nodes. */
import { CLUSTER_SUBSET } from "./setup/cluster-suite.ts";
import { inOneProcess } from "./setup/in-one-process.ts";

inOneProcess(CLUSTER_SUBSET);
