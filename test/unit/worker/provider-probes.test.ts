import { expect, test } from "vitest";
import type { GateState } from "../../../src/shared/redis/provider-gate.ts";
import { providerProbes } from "../../../src/worker/provider-probes.ts";

const states: GateState[] = [
  { name: "a/1/m", state: "slowed", reason: "rate_limited", holders: 1, waiting: 0 },
  { name: "b/1/m", state: "denied", reason: "authentication", holders: 0, waiting: 2 },
  {
    name: "c/1/m",
    state: "closed",
    reason: "overloaded",
    until: "2026-11-21T10:00:00Z",
    holders: 0,
    waiting: 2,
  },
];

test("a breaker and a closed gate are reasons, a slow one is not, and so is an operator's pause", async () => {
  const probes = providerProbes(
    { list: async () => states },
    { state: async () => ({ at: "2026-11-21T09:00:00Z", reason: "too dear" }) },
  );
  expect(await Promise.all(probes.map((probe) => probe()))).toEqual([
    "model: breaker open for b/1/m (authentication); model: rate limited for c/1/m (overloaded) until 2026-11-21T10:00:00Z",
    "paused since 2026-11-21T09:00:00Z (too dear)",
  ]);
});

test("healthy gates and a running installation are none", async () => {
  const probes = providerProbes({ list: async () => [] }, { state: async () => undefined });
  expect(await Promise.all(probes.map((probe) => probe()))).toEqual([undefined, undefined]);
});
