/** Guarantee: the runs that wait before a limiter come back as fast as the provider takes calls, in their order. */
import { expect, test } from "vitest";
import { TIMING, type Timing } from "../../../src/shared/protocol/limits.ts";
import {
  type Admission,
  createProviderLimiter,
  type LimiterRelease,
} from "../../../src/shared/redis/provider-limiter.ts";
import { redisNowMs } from "../../../src/shared/redis/redis-time.ts";
import { verbRig } from "./rig.ts";

const NAME = "127.0.0.1:1/ab12cd34/offline-1";
const OK: LimiterRelease = { outcome: "ok", reason: "turn" };
const LIMITED: LimiterRelease = { outcome: "limited", reason: "overloaded" };
const DENIED: LimiterRelease = { outcome: "denied", reason: "authentication" };

/** A limiter that a call has closed, with runs that wait in this order; those of `resuming` have made a call before. */
async function closedLimiter({ waiting = [], resuming = [], how = LIMITED, timing = {} }: Scene = {}) {
  const rig = verbRig();
  const limiter = createProviderLimiter(rig.redis, rig.keys, { ...TIMING, ...timing }, () => 0);
  const status = async (run: string, resumes = false) =>
    (await limiter.acquire(NAME, run, { resumes })).status;
  const admit = async (run: string): Promise<Admission> => {
    const answer = await limiter.acquire(NAME, run);
    if (answer.status !== "open") throw new Error(`${run} was not let in: ${JSON.stringify(answer)}`);
    return answer;
  };
  const call = async (run: string) => limiter.release(NAME, run, await admit(run), OK);
  await limiter.release(NAME, "first", await admit("first"), how);
  // One connection sends them in this order.
  await Promise.all([...waiting.map((run) => status(run)), ...resuming.map((run) => status(run, true))]);
  /** Redis' clock passes the end of the closing, and no appointment: there is `places` more room than for one call. */
  const opens = async (places = 1) => {
    const lines = [rig.keys.limiterWaiting(NAME), rig.keys.limiterResuming(NAME)];
    for (const line of lines) {
      const runs = await rig.redis.zrange(line, 0, -1);
      await Promise.all(runs.map((run) => rig.redis.zincrby(line, 3_600_000, run)));
    }
    await rig.redisReaches(Number(await rig.redis.hget(rig.keys.limiter(NAME), "until")) + 1);
    await rig.redis.hset(rig.keys.limiter(NAME), "limit", places);
  };
  return { ...rig, limiter, status, admit, call, opens, next: () => limiter.next(NAME) };
}

interface Scene {
  waiting?: readonly string[];
  resuming?: readonly string[];
  how?: LimiterRelease;
  timing?: Partial<Timing>;
}

test("a limiter that is healthy or closed calls no run; one that has opened, those that wait longest", async () => {
  const { limiter, next, opens, status } = await closedLimiter({ waiting: ["a", "b", "c", "d"] });
  expect(await limiter.next("healthy")).toEqual([]);
  expect(await next()).toEqual([]);
  await opens(3);
  expect(await next()).toEqual(["a", "b", "c"]);
  for (const run of ["a", "b", "c"]) expect(await status(run), run).toBe("open");
  expect(await limiter.list()).toMatchObject([{ holders: 3, waiting: 1 }]);
});

test("there is room for as many runs as the limiter has free places, those of dead holders included", async () => {
  const { redis, keys, redisNow, next, opens, status } = await closedLimiter({ waiting: ["a", "b", "c"] });
  await opens(3);
  await status("under way", true);
  await redis.zadd(keys.limiterHolders(NAME), (await redisNow()) - 1, "dead");
  expect(await next()).toEqual(["a", "b"]);
});

test("runs that have made a call come first, and wait in a line of their own", async () => {
  const scene = await closedLimiter({ waiting: ["a", "b"], resuming: ["r", "s", "t"] });
  await scene.opens(4);
  expect(await scene.next()).toEqual(["r", "s", "t", "a"]);
});

test("a run that has made a call does not wait behind those that have not", async () => {
  const waiting = Array.from({ length: 50 }, (_, i) => `w-${i}`);
  const { limiter } = await closedLimiter({ waiting });
  const behind = await limiter.acquire(NAME, "new");
  const resumed = await limiter.acquire(NAME, "resumed", { resumes: true });
  if (behind.status !== "wait" || resumed.status !== "wait") return expect.unreachable();
  expect(behind.waitMs - resumed.waitMs).toBeGreaterThanOrEqual(50 * 200);
  expect(await limiter.list()).toMatchObject([{ waiting: 52 }]);
});

test("a place that a run was called to is taken by no other, and given away once", async () => {
  const { next, opens, status } = await closedLimiter({ waiting: ["a", "b", "c"] });
  await opens(2);
  expect(await next()).toEqual(["a", "b"]);
  expect(await next()).toEqual([]);
  expect(await status("newcomer")).toBe("wait");
  expect(await status("resumed", true)).toBe("wait");
  expect([await status("b"), await status("a")]).toEqual(["open", "open"]);
});

test("a newcomer goes behind those that wait, also where there is room; a run that has made a call goes ahead of them", async () => {
  const { opens, status } = await closedLimiter({ waiting: ["a", "b"] });
  await opens(4);
  expect([await status("newcomer"), await status("resumed", true)]).toEqual(["wait", "open"]);
  for (const run of ["a", "b", "newcomer"]) expect(await status(run), run).toBe("open");
  expect(await status("another")).toBe("wait");
});

test("a run that has made no call waits until those that have are in, those that do not come not counted", async () => {
  const scene = await closedLimiter({ waiting: ["a"], resuming: ["r", "gone"] });
  const { redis, keys, redisNow, opens, status } = scene;
  await opens(4);
  expect([await status("a"), await status("r", true), await status("a")]).toEqual(["wait", "open", "wait"]);
  await redis.zadd(keys.limiterResuming(NAME), (await redisNow()) - 2_001, "gone");
  expect(await status("a")).toBe("open");
});

test("a run that was called and comes late is still before the newcomers, and one that leaves is in no line any more", async () => {
  const { redis, keys, limiter, next, opens, status } = await closedLimiter({ waiting: ["late", "b", "c"] });
  await opens(1);
  expect(await next()).toEqual(["late"]);
  await redis.zincrby(keys.limiterHolders(NAME), -2_001, "late");
  expect([await status("newcomer"), await status("late")]).toEqual(["wait", "open"]);
  const unasked = { status: "open", enteredAt: 0, holdsSlot: false } as const;
  for (const run of ["late", "b"])
    await limiter.release(NAME, run, unasked, { outcome: "neutral", reason: "left" });
  expect(await next()).toEqual(["c"]);
  expect(await redis.zrange(keys.limiterWaiting(NAME), 0, -1)).toEqual(["c", "newcomer"]);
});

test("a run that was called and does not come within two seconds has lost its place, and the next one is called", async () => {
  const { redis, keys, next, opens, status } = await closedLimiter({ waiting: ["gone", "b", "c"] });
  await opens(1);
  expect(await next()).toEqual(["gone"]);
  const left = Number(await redis.zscore(keys.limiterHolders(NAME), "gone")) - (await redisNowMs(redis));
  expect(left).toBeGreaterThan(0);
  expect(left).toBeLessThanOrEqual(2_000);
  await redis.zincrby(keys.limiterHolders(NAME), -2_001, "gone");
  expect(await next()).toEqual(["b"]);
  expect(await status("b")).toBe("open");
});

test("the places of runs that were called go by themselves, and those of others stay as long as before", async () => {
  const { redis, keys, next, opens, status } = await closedLimiter({ waiting: ["a"] });
  await opens(2);
  await status("under way", true);
  await next();
  expect(await redis.pttl(keys.limiterHolders(NAME))).toBeGreaterThan(TIMING.leaseMs - 2_000);
});

test("a run that has begun its call waits in no line any more", async () => {
  const { redis, keys, limiter, opens, admit, next } = await closedLimiter({
    waiting: ["a"],
    resuming: ["a"],
  });
  await opens(1);
  await next();
  await admit("a");
  expect(await redis.exists(keys.limiterWaiting(NAME), keys.limiterResuming(NAME))).toBe(0);
  expect(await limiter.list()).toMatchObject([{ holders: 1, waiting: 0 }]);
});

test("a limiter is remembered until the last run of both lines asks again, whichever asks last", async () => {
  const waiting = Array.from({ length: 20 }, (_, i) => `w-${i}`);
  const timing = { limiterQuietMs: 100 };
  const { redis, keys, redisNow, status } = await closedLimiter({ waiting, timing });
  await status("resumed", true);
  await status("w-0");
  const [, last] = await redis.zrange(keys.limiterWaiting(NAME), -1, -1, "WITHSCORES");
  const lastInMs = Number(last) - (await redisNow());
  expect(await redis.pttl(keys.limiter(NAME))).toBeGreaterThan(lastInMs);
  expect(await redis.pttl(keys.limiterWaiting(NAME))).toBeGreaterThan(lastInMs);
});

test("those who wait for a credential come back one by one when it is good, and it is forgotten when none waits", async () => {
  const { limiter, call, opens, next, status, everything } = await closedLimiter({
    how: DENIED,
    waiting: ["probe", "a", "b"],
    timing: { breakerMs: 50 },
  });
  await opens();
  expect(await next()).toEqual(["probe"]);
  await call("probe");
  expect(await limiter.list()).toMatchObject([{ state: "slowed", limit: 2, waiting: 2 }]);
  expect(await next()).toEqual(["a", "b"]);
  await call("a");
  expect(await status("b")).toBe("open");
  await call("b");
  expect(await everything()).toEqual({});
});

test("a credential that is refused again, and a limit after it, are what they are without those who waited", async () => {
  const { limiter, admit, call, opens, next } = await closedLimiter({
    how: DENIED,
    waiting: ["probe", "a"],
    timing: { breakerMs: 50, limiterBackoffMs: 50 },
  });
  await opens();
  await next();
  await call("probe");
  await next();
  await limiter.release(NAME, "a", await admit("a"), LIMITED);
  await opens();
  await call("b");
  expect(await limiter.list()).toMatchObject([{ state: "slowed" }]);
});

test("of many runs at most a hundred are called at a time", async () => {
  const waiting = Array.from({ length: 120 }, (_, i) => `w-${i}`);
  const { next, opens } = await closedLimiter({ waiting });
  await opens(1_000);
  expect(await next()).toHaveLength(100);
  expect(await next()).toHaveLength(20);
});

test("a clock of Redis that is set back calls no run: the limiter does not hold any more", async () => {
  const { redis, keys, next, opens } = await closedLimiter({ waiting: ["a"] });
  await opens();
  await redis.hincrby(keys.limiter(NAME), "since", 3_600_000);
  expect(await next()).toEqual([]);
});
