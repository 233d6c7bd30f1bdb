/** Guarantee: no call begins on old knowledge of a pause or a limit: what was not read a moment ago is asked for. */
import { expect, test } from "vitest";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { createPause, PAUSE_KNOWN_MS } from "../../../src/shared/redis/pause.ts";
import { createProviderLimiter } from "../../../src/shared/redis/provider-limiter.ts";
import { Lease } from "../../../src/worker/run/lease.ts";
import { providerLimitOf, skippingClock, standingClock } from "../../helpers/run-context.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const NAME = "127.0.0.1:1/ab12cd34/offline-1";

/** A process' knowledge whose clock the test may set forward without any timer firing. */
async function frozenProcess(clock = skippingClock()) {
  const installation = await openStage();
  const { redis, keys, store } = installation;
  const limiter = createProviderLimiter(redis, keys);
  const pause = createPause(redis, keys);
  let reads = 0;
  const provider = providerLimitOf(installation, clock, {
    async list() {
      const limiters = await limiter.list();
      reads += 1;
      return limiters;
    },
  });
  const address = { tenant: "default", parentId: "p", uid: newUid() };
  const lease = new Lease(
    { store, clock },
    { address, epoch: 1, claimId: "c-1", claimedAtMs: clock.monotonicMs(), earlierMs: 0 },
  );
  const permit = async () => provider.acquire(NAME, lease);
  const enter = async () => (await permit()).status;
  return { provider, pause, permit, enter, freeze: clock.skip, hasRead: () => reads > 0 };
}

test("a process that has read nothing yet asks before it calls", async () => {
  const { pause, enter } = await frozenProcess();
  expect(await enter()).toBe("open");
  await pause.begin("night");
  expect(await enter()).toBe("paused");
});

test("a process that stood still asks before it calls, and one that just read does not have to", async () => {
  const { provider, pause, enter, freeze, hasRead } = await frozenProcess(standingClock());
  provider.start();
  await until(hasRead);
  provider.stop();
  await until(async () => (await enter()) === "open");
  await pause.begin("night");
  expect(await enter()).toBe("open");
  freeze(PAUSE_KNOWN_MS);
  expect(await enter()).toBe("paused");
});

test("a permit of Redis' holds against a pause that was read before it, and holds until a later read finds one", async () => {
  const { provider, pause, permit, freeze, hasRead } = await frozenProcess();
  await pause.begin("night");
  provider.start();
  await until(hasRead);
  provider.stop();
  await pause.resume();
  freeze(1);
  const asked = await permit();
  expect(asked.status === "open" && asked.holds()).toBe(true);
  await pause.begin("again");
  provider.start();
  await until(() => asked.status === "open" && !asked.holds());
  provider.stop();
});
