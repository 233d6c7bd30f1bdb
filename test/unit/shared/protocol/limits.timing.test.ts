import { expect, test } from "vitest";
import { IDLE_MS, MAX_LIVE_AGENTS, TIMING } from "../../../../src/shared/protocol/limits.ts";

test("a worker renews often enough to miss one renewal and still stop before its lease ends", () => {
  expect(TIMING.renewMs * 2).toBeLessThan(TIMING.leaseMs - TIMING.leaseMarginMs);
});

test("a lease that expires is noticed, an eighth of a renewal interval late at most, well before Redis lets it go", () => {
  expect(TIMING.leaseMarginMs).toBeGreaterThanOrEqual((2 * TIMING.renewMs) / 8);
});

test("a lease is never longer than the first look: a run that is queued again is looked at in time", () => {
  expect(TIMING.leaseMs).toBeLessThanOrEqual(TIMING.checkMs);
  expect(TIMING.checkMs).toBeLessThanOrEqual(TIMING.longestCheckMs);
});

test("names outlive what is kept of the agents that bear them, and replies outlive the memory of requests", () => {
  expect(TIMING.registryTtlMs).toBeGreaterThan(TIMING.replyTtlMs);
  expect(TIMING.replyTtlMs).toBeGreaterThan(TIMING.requestTtlMs);
  expect(TIMING.keptAfterAckMs).toBeLessThanOrEqual(TIMING.replyTtlMs);
});

test("the origin's numbers: ten idle minutes, ten live agents", () => {
  expect([IDLE_MS, MAX_LIVE_AGENTS]).toEqual([600_000, 10]);
});
