import { expect, test } from "vitest";
import { CLAIMED_AGAIN_MS, judgeRecovery } from "./oracle-recovery.ts";

const waits = (p95: number) => ({ count: 20, p50: 1, p95, max: p95 });

test("runs of killed workers that are claimed again too late are a violation, and none at all is none", () => {
  expect(judgeRecovery(waits(CLAIMED_AGAIN_MS), false)).toEqual([]);
  expect(judgeRecovery(waits(CLAIMED_AGAIN_MS + 1), false)).toHaveLength(1);
  expect(judgeRecovery({ count: 0, p50: 0, p95: 0, max: 0 }, false)).toEqual([]);
});

test("where answers of Redis are lost, one lost answer more is in time", () => {
  expect(judgeRecovery(waits(CLAIMED_AGAIN_MS + 5_000), true)).toEqual([]);
  expect(judgeRecovery(waits(CLAIMED_AGAIN_MS + 5_001), true)).toHaveLength(1);
});
