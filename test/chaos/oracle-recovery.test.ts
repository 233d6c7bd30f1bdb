import { expect, test } from "vitest";
import { CLAIMED_AGAIN_MS, judgeRecovery } from "./oracle-recovery.ts";

const alike = { swallowed: false, stalledCheck: true };
const waits = (p95: number, count = 20, faults: Record<string, number> = { kill: 4 }) => ({
  redispatch: { count, p50: 1, p95, max: p95 },
  faults,
});

test("runs of killed workers that are claimed again too late are a violation", () => {
  expect(judgeRecovery(waits(CLAIMED_AGAIN_MS), alike)).toEqual([]);
  expect(judgeRecovery(waits(CLAIMED_AGAIN_MS + 1), alike)).toHaveLength(1);
});

test.for(["kill", "stop", "refuse", "blackhole"])(
  "a %s after which no run is claimed again is one",
  (kind) => {
    expect(judgeRecovery(waits(0, 0, { [kind]: 1 }), alike)).toHaveLength(1);
    expect(judgeRecovery(waits(0, 1, { [kind]: 1 }), alike)).toEqual([]);
  },
);

test("where no worker was taken away, none need be claimed again", () => {
  expect(judgeRecovery(waits(0, 0, {}), alike)).toEqual([]);
  expect(judgeRecovery(waits(0, 0, { redis: 2, clock: 2 }), alike)).toEqual([]);
});

test("where answers of Redis are lost, one lost answer more is in time", () => {
  expect(judgeRecovery(waits(CLAIMED_AGAIN_MS + 5_000), { ...alike, swallowed: true })).toEqual([]);
  expect(judgeRecovery(waits(CLAIMED_AGAIN_MS + 5_001), { ...alike, swallowed: true })).toHaveLength(1);
});

test("where BullMQ looks for no stalled jobs, an agent's own look more is in time", () => {
  const unlooked = { ...alike, stalledCheck: false };
  expect(judgeRecovery(waits(CLAIMED_AGAIN_MS + 10_000), unlooked)).toEqual([]);
  expect(judgeRecovery(waits(CLAIMED_AGAIN_MS + 10_001), unlooked)).toHaveLength(1);
});
