/** Guarantee: the used share of a budget that the doctor reads is that of its tokens or of its money, whichever is more. */
import { expect, test } from "vitest";
import { readUsedShare } from "../../../src/shared/redis/budget.ts";
import { verbRig } from "./rig.ts";

test.each([
  ["of its tokens", { maxTokens: 1_000 }, 0.25],
  ["of its money", { maxMicroUsd: 4_000_000 }, 0.5],
  ["of its money where that is more", { maxTokens: 1_000, maxMicroUsd: 4_000_000 }, 0.5],
  ["of its tokens where that is more", { maxTokens: 1_000, maxMicroUsd: 40_000_000 }, 0.25],
  ["of nothing where it has no cap", {}, 0],
] as const)("the used share %s", async (_, caps, share) => {
  const { redis, keys } = verbRig();
  await redis.hset(keys.budget("team"), { "t/0": 250, "c/0": 2_000_000 });
  expect(await readUsedShare(redis, keys, { name: "team", of: "tenant", ...caps })).toBe(share);
});
