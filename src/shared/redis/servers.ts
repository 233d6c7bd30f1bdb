/** The servers behind a connection: each holds a part of the keys, and has settings of its own. */
import { Cluster, type Redis } from "ioredis";

/** The one server, or every master of a cluster. */
export function serversOf(redis: Redis | Cluster): Redis[] {
  return redis instanceof Cluster ? redis.nodes("master") : [redis];
}
