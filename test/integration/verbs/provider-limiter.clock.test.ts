/** Guarantee: what is told of a limiter follows what it does, also when Redis' clock was set back. */
import { expect, test } from "vitest";
import { createProviderLimiter } from "../../../src/shared/redis/provider-limiter.ts";
import { verbRig } from "./rig.ts";

const NAME = "127.0.0.1:1/ab12cd34/offline-1";
const UNASKED = { status: "open", enteredAt: 0, holdsSlot: false } as const;

test.for(["limited", "denied"] as const)(
  "a limiter that was %s by a clock that is set back since is not told of: it lets each call through",
  async (outcome) => {
    const { redis, keys } = verbRig();
    const limiter = createProviderLimiter(redis, keys);
    await limiter.release(NAME, "first", UNASKED, { outcome, reason: "a refusal" });
    expect(await limiter.list()).toMatchObject([{ name: NAME }]);
    for (const field of ["until", "since"]) await redis.hincrby(keys.limiter(NAME), field, 3_600_000);
    expect(await limiter.list()).toEqual([]);
    expect(await limiter.acquire(NAME, "next")).toMatchObject({ status: "open", holdsSlot: false });
  },
);
