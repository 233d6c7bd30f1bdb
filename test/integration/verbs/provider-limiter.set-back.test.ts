/** Guarantee: of a limiter that was closed by a clock which is set back since, nothing is left for those that come later. */
import { expect, test } from "vitest";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { createProviderLimiter, type LimiterRelease } from "../../../src/shared/redis/provider-limiter.ts";
import { verbRig } from "./rig.ts";

const NAME = "127.0.0.1:1/ab12cd34/offline-1";
const LIMITED: LimiterRelease = { outcome: "limited", reason: "overloaded" };
const UNASKED = { status: "open", enteredAt: 0, holdsSlot: false } as const;
const HOUR_MS = 3_600_000;

test("those that wait behind a later refusal do not wait behind the line of the old one", async () => {
  const { redis, keys } = verbRig();
  const limiter = createProviderLimiter(redis, keys, TIMING, () => 0);
  await limiter.release(NAME, "first", UNASKED, LIMITED);
  await limiter.acquire(NAME, "old");
  for (const field of ["until", "since"]) await redis.hincrby(keys.limiter(NAME), field, HOUR_MS);
  await redis.zincrby(keys.limiterWaiting(NAME), HOUR_MS, "old");
  const admission = await limiter.acquire(NAME, "next");
  if (admission.status !== "open") return expect.unreachable();
  await limiter.release(NAME, "next", admission, LIMITED);
  const behind = await limiter.acquire(NAME, "new");
  if (behind.status !== "wait") return expect.unreachable();
  expect(behind.waitMs).toBeLessThan(HOUR_MS / 2);
});
