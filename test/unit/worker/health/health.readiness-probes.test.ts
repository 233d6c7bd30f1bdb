import { expect, test } from "vitest";
import type { LimiterState } from "../../../../src/shared/redis/provider-limiter.ts";
import { credentialProbe, pauseProbe } from "../../../../src/worker/health/health.ts";

const denied: LimiterState = {
  name: "b/1/m/8",
  state: "denied",
  reason: "authentication",
  holders: 0,
  waiting: 2,
};
const slowed: LimiterState = {
  name: "a/1/m",
  state: "slowed",
  reason: "rate_limited",
  holders: 1,
  waiting: 0,
};
const closed: LimiterState = { ...slowed, state: "closed", until: "2026-11-21T10:00:00Z" };
const limiterOf = (...states: LimiterState[]) => ({
  list: async (beginning = "") => states.filter(({ name }) => name.startsWith(beginning)),
});
const modelOf = (provider: string) => ({ limiterName: (model: string) => `${provider}/${model}` });

test("a refused credential of one's own is a reason; another's is not, nor a limiter that makes calls wait", async () => {
  expect(await credentialProbe(limiterOf(slowed, denied), modelOf("b/1"))()).toBe(
    "the provider refuses the credential (authentication) at b/1/m/8",
  );
  expect(await credentialProbe(limiterOf(denied), modelOf("b/2"))()).toBeUndefined();
  expect(await credentialProbe(limiterOf(slowed, closed), modelOf("a/1"))()).toBeUndefined();
});

const queue = (isPaused: boolean) => ({ isPaused: async () => isPaused });

test("a pause is a reason, with the operator's word", async () => {
  const at = "2026-11-21T09:00:00Z";
  expect(await pauseProbe({ state: async () => ({ at, reason: "too dear" }) }, queue(true))()).toBe(
    `the installation is paused since ${at}: too dear`,
  );
  expect(await pauseProbe({ state: async () => ({ at }) }, queue(true))()).toBe(
    `the installation is paused since ${at}`,
  );
  expect(await pauseProbe({ state: async () => undefined }, queue(false))()).toBeUndefined();
});

test("a queue that a tool of BullMQ has paused is a reason", async () => {
  expect(await pauseProbe({ state: async () => undefined }, queue(true))()).toBe(
    "the wake queue itself was paused",
  );
});
