/** Guarantee: a sweeper does not take workers for gone that have had no time to announce themselves. */
import { expect, test } from "vitest";
import { WORKER_TTL_MS } from "../../../src/shared/protocol/worker.ts";
import { createListTrust } from "../../../src/worker/worker-list.ts";
import { handClock } from "../../helpers/hand-clock.ts";

const HOUR_MS = 3_600_000;

function scene(toolsMs = 10 * 60_000) {
  const clock = handClock();
  const trust = createListTrust(clock, toolsMs);
  /** Redis' clock moves on with the sweeper's, and by `jumpMs` more. */
  let redisMs = 1_000_000;
  const passes = (ms: number, jumpMs = 0) => {
    clock.advance(ms);
    redisMs += ms + jumpMs;
    trust.tell(redisMs);
  };
  return { trust, passes };
}

test("the list counts for a single look, and from half a minute after the sweeper began", () => {
  const { trust, passes } = scene();
  expect(trust.isComplete()).toBe(true);
  trust.begin();
  passes(WORKER_TTL_MS - 1);
  expect(trust.isComplete()).toBe(false);
  passes(1);
  expect(trust.isComplete()).toBe(true);
});

test("after a jump of Redis' clock forward it counts half a minute later", () => {
  const { trust, passes } = scene();
  passes(1_000);
  passes(1_000, HOUR_MS);
  expect(trust.isComplete()).toBe(false);
  passes(WORKER_TTL_MS - 1);
  expect(trust.isComplete()).toBe(false);
  passes(1);
  expect(trust.isComplete()).toBe(true);
});

test("a clock that was set back, one that is slewed and a time without anything due take nothing from it", () => {
  const { trust, passes } = scene();
  passes(1_000);
  const steps = [
    [1_000, -HOUR_MS],
    ...Array.from({ length: 20 }, () => [1_000, 4_000]),
    [24 * HOUR_MS, 0],
  ] as const;
  for (const [ms = 0, jumpMs] of steps) {
    passes(ms, jumpMs);
    expect(trust.isComplete(), `${jumpMs}`).toBe(true);
  }
});

test("a run that waits for its tools for less than that waits no longer", () => {
  const { trust, passes } = scene(2_000);
  trust.begin();
  passes(1_999);
  expect(trust.isComplete()).toBe(false);
  passes(1);
  expect(trust.isComplete()).toBe(true);
});
