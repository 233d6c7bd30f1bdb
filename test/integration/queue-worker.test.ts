/** Guarantee: a worker of a queue can be closed whatever its connections do, and leaves no timer that keeps its process alive. */
import { expect, test } from "vitest";
import { systemClock } from "../../src/shared/clock.ts";
import { closeRedis, openRedis } from "../../src/shared/redis/connection/connection.ts";
import { QueueWorker } from "../../src/shared/redis/queue-worker.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";

class WatchedWorker extends QueueWorker<unknown, void> {
  runningChecks = 0;

  protected override async checkConnectionError<T>(check: () => Promise<T>): Promise<T | undefined> {
    this.runningChecks++;
    return super.checkConnectionError(check).finally(() => this.runningChecks--);
  }

  renewsLocks(): boolean {
    return this.lockManager.isRunning();
  }
}

test("a worker whose waiting connection is about to reconnect closes in its time, and renews no locks any more", async () => {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const options = { connection: redis, prefix: uniquePrefix(), autorun: false, drainDelay: 0.2 };
  const worker = new WatchedWorker("jobs", async () => {}, options);
  // BullMQ tells each lost connection so.
  worker.on("error", () => {});
  void worker.run();
  await worker.waitUntilReady();
  const waiting = await worker.getBackend().blockingClient;
  if (!waiting) throw new Error("no connection waits for jobs");
  await until(() => worker.renewsLocks());
  waiting.disconnect(true);
  await until(() => waiting.status === "reconnecting");
  await worker.closeWithin(systemClock, 100, false);
  expect(worker.renewsLocks()).toBe(false);
  expect(waiting.status).toBe("end");
});

test("a worker that closes after a failed check for stalled jobs leaves no timer", async () => {
  const redis = openRedis(redisUrl(), "worker");
  closeAtEnd(() => closeRedis(redis));
  const worker = new WatchedWorker("jobs", async () => {}, {
    ...{ connection: redis, prefix: uniquePrefix(), autorun: false, drainDelay: 0.2 },
  });
  await redis.set(worker.toKey("active"), "no list");
  const failures: string[] = [];
  worker.on("error", (error) => failures.push(error.message));
  void worker.run();
  await until(() => failures.some((failure) => failure.includes("WRONGTYPE")));
  await worker.closeWithin(systemClock, 10_000, false);
  // The pause of BullMQ would last for five seconds.
  await until(() => worker.runningChecks === 0, { timeoutMs: 3_000 });
});
