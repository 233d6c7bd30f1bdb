/** Guarantee: a refused batch ends at once, also if its tasks wait for room and nobody makes any. */
import { expect, test } from "vitest";
import { SLOW_POLL_MS } from "../../../src/producer/subscriber.ts";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import { MAX_LIVE_AGENTS } from "../../../src/shared/protocol/limits.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openMonitor } from "../../helpers/monitor.ts";
import { testClient, testParent } from "../../helpers/parents.ts";
import { masterUrls, redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { scriptedWorker } from "../../helpers/scripted-worker.ts";
import { until } from "../../helpers/until.ts";

const address = { tenant: "default", parentId: "planner-7" };
/** A clock without the slow tick, so only a ring can wake a task that waits for room. */
const clock: Clock = {
  ...systemClock,
  timeout: (ms, work) => (ms === SLOW_POLL_MS ? { cancel() {} } : systemClock.timeout(ms, work)),
};

test("a batch whose tasks wait for room ends when its signal is aborted, without a ring", async () => {
  const prefix = uniquePrefix();
  const worker = scriptedWorker(redisUrl(), prefix, address);
  const parent = testParent(testClient({ prefix, clock }));
  for (let i = 0; i < MAX_LIVE_AGENTS; i++) await parent.spawn({ name: `idle ${i}` });
  const { profile } = worker.store.keys.parent(address);
  let tries = 0;
  for (const url of masterUrls(worker.redis)) {
    // Of all scripts only a spawn reads the profile here.
    const monitor = await openMonitor(url, (_at, [, key], source) => {
      if (source === "lua" && key === profile) tries += 1;
    });
    closeAtEnd(monitor.stop);
  }
  const stopping = new AbortController();
  const all = parent.taskAll(["late"], { signal: stopping.signal });
  all.catch(() => {});
  // The confirmed subscription of the doorbell rings once, so the second try waits for a real ring.
  await until(() => tries === 2);
  stopping.abort(new Error("over"));
  await expect(all).rejects.toThrow("over");
});
