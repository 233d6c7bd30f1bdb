/** Guarantee: wherever the names of expired limiters stand among those of others, they leave while limiters close. */
import { expect, test } from "vitest";
import { createProviderLimiter } from "../../../src/shared/redis/provider-limiter.ts";
import { verbRig } from "./rig.ts";

const UNASKED = { status: "open", enteredAt: Number.MAX_SAFE_INTEGER, holdsSlot: false } as const;
const LIMITED = { outcome: "limited", reason: "overloaded" } as const;
const numbered = (stem: string, count: number) => Array.from({ length: count }, (_, n) => `${stem}/${n}`);

// Some versions of Redis read a small set whole and in the order in which its names came, all read a long one in parts. The
// chance that one of ten names is still there after so many closings is below one in a million.
test.each([
  { among: 10, closings: 150 },
  { among: 150, closings: 800 },
])("ten names that came behind $among of limiters that stand leave with $closings closings", async (line) => {
  const { redis, keys } = verbRig();
  const limiter = createProviderLimiter(redis, keys);
  const standing = numbered("there", line.among);
  for (const name of standing) await limiter.release(name, "r", UNASKED, LIMITED);
  await redis.sadd(keys.limiters, ...numbered("gone", 10));
  const again = Array.from({ length: line.closings }, (_, n) =>
    limiter.release("there/0", `r-${n}`, UNASKED, LIMITED),
  );
  await Promise.all(again);
  expect((await redis.smembers(keys.limiters)).sort()).toEqual(standing.sort());
});
