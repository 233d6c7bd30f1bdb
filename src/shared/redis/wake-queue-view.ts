/** The wake queue as the board, `doctor` and the metrics of the API read it. Writes nothing by itself. */
import { Queue } from "bullmq";
import type { Keys } from "../protocol/keys.ts";
import type { RedisClient } from "./connection/connection.ts";

/** The wake queue as a dashboard reads it. */
export type ReadableWakeQueue = Queue;

/** The wake queue for reading. The caller closes it; the connection stays its owner's. */
export function openWakeQueueForReading(redis: RedisClient, keys: Keys): ReadableWakeQueue {
  const queue = new Queue(keys.wakeQueue, {
    connection: redis,
    prefix: keys.bullPrefix,
    skipVersionCheck: true,
    skipMetasUpdate: true,
  });
  queue.on("error", () => {});
  return queue;
}
