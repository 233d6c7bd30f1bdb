/** Guarantee: what one call meets at the provider holds for all; places are leases; nothing counts twice. */
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
const LIMITED: LimiterRelease = { outcome: "limited", reason: "overloaded" };
const DENIED: LimiterRelease = { outcome: "denied", reason: "authentication" };
const OK: LimiterRelease = { outcome: "ok", reason: "turn" };

function limiterRig(timing: Partial<Timing> = {}) {
  const rig = verbRig();
  const limiter = createProviderLimiter(rig.redis, rig.keys, { ...TIMING, ...timing }, () => 0);
  const admit = async (run: string): Promise<Admission> => {
    const answer = await limiter.acquire(NAME, run);
    if (answer.status !== "open") throw new Error(`${run} was not let in: ${JSON.stringify(answer)}`);
    return answer;
  };
  const waitOf = async (run: string): Promise<number> => {
    const answer = await limiter.acquire(NAME, run);
    if (answer.status !== "wait") throw new Error(`${run} was let in: ${JSON.stringify(answer)}`);
    return answer.waitMs;
  };
  /** Redis' clock passes the end of the closing. */
  const opens = async () =>
    rig.redisReaches(Number(await rig.redis.hget(rig.keys.limiter(NAME), "until")) + 1);
  const field = async (name: string) => Number(await rig.redis.hget(rig.keys.limiter(NAME), name));
  return { ...rig, limiter, admit, waitOf, opens, field };
}

test("a healthy limiter lets everybody through and leaves nothing behind", async () => {
  const { limiter, admit, everything } = limiterRig();
  const admission = await admit("a");
  expect(admission.holdsSlot).toBe(false);
  expect(await limiter.release(NAME, "a", admission, OK)).toBe("left");
  expect(await limiter.release(NAME, "a", admission, { outcome: "neutral", reason: "network" })).toBe("left");
  expect(await everything()).toEqual({});
  expect(await limiter.list()).toEqual([]);
});

test("after a refusal nobody is let through until it is over, then one at a time, then two", async () => {
  const { limiter, admit, waitOf, opens } = limiterRig({ limiterBackoffMs: 1_000 });
  await limiter.release(NAME, "a", await admit("a"), LIMITED);
  expect(await limiter.list()).toMatchObject([
    { name: NAME, state: "closed", reason: "overloaded", limit: 1, holders: 0 },
  ]);
  expect(await waitOf("b")).toBeLessThanOrEqual(500);
  await opens();
  const probe = await admit("b");
  expect(probe.holdsSlot).toBe(true);
  expect(await waitOf("c")).toBeGreaterThan(2_000);
  await limiter.release(NAME, "b", probe, OK);
  await admit("c");
  await admit("d");
  expect(await waitOf("e")).toBeGreaterThan(2_000);
  expect(await limiter.list()).toMatchObject([{ state: "slowed", limit: 2, holders: 2, waiting: 1 }]);
});

test("whatever a limiter leaves goes by itself", async () => {
  const { limiter, redis, admit, waitOf, opens, everything } = limiterRig({ limiterBackoffMs: 1_000 });
  await limiter.release(NAME, "a", await admit("a"), LIMITED);
  await opens();
  await admit("b");
  await waitOf("c");
  const left = Object.keys(await everything());
  expect(left).toHaveLength(4);
  for (const key of left) expect(await redis.pttl(key), key).toBeGreaterThan(0);
});

test("a limiter at which calls wait is remembered as long as they wait", async () => {
  const { limiter, redis, keys, admit, waitOf, opens } = limiterRig({ limiterBackoffMs: 1_000 });
  await limiter.release(NAME, "a", await admit("a"), LIMITED);
  await opens();
  await admit("b");
  await redis.pexpire(keys.limiter(NAME), 1_000);
  const waitMs = await waitOf("c");
  expect(await redis.pttl(keys.limiter(NAME))).toBeGreaterThan(waitMs);
});

test("calls that were refused together count as one refusal, and the longest wait asked for holds", async () => {
  const { limiter, admit, waitOf, field } = limiterRig();
  const admissions = await Promise.all(["a", "b", "c"].map(admit));
  for (const [i, admission] of admissions.entries()) {
    await limiter.release(NAME, ["a", "b", "c"][i] ?? "", admission, {
      ...LIMITED,
      retryAfterMs: 10_000 * (i + 1),
    });
  }
  expect(await field("consecutive_refusals")).toBe(1);
  expect(await waitOf("d")).toBeGreaterThan(20_000);
});

test("refused probes close the limiter for longer and longer; a call that succeeds ends that", async () => {
  const { limiter, admit, opens, field } = limiterRig({ limiterBackoffMs: 20, longestLimiterBackoffMs: 60 });
  const closedFor: number[] = [];
  for (let i = 0; i < 4; i += 1) {
    await limiter.release(NAME, "a", await admit("a"), LIMITED);
    closedFor.push((await field("until")) - (await field("since")));
    await opens();
  }
  expect(closedFor).toEqual([10, 20, 30, 30]);
  await limiter.release(NAME, "a", await admit("a"), OK);
  await limiter.release(NAME, "a", await admit("a"), LIMITED);
  expect((await field("until")) - (await field("since"))).toBe(10);
});

test("a refusal among many halves what was in flight; from there it grows by one a round", async () => {
  const { limiter, admit, opens, field } = limiterRig({ limiterBackoffMs: 2 });
  await limiter.release(NAME, "a", await admit("a"), LIMITED);
  await opens();
  for (let i = 0; i < 8; i += 1) await limiter.release(NAME, "a", await admit("a"), OK);
  expect(await field("limit")).toBe(9);
  const calls = await Promise.all(["a", "b", "c", "d"].map(admit));
  for (const [i, call] of calls.entries()) {
    await limiter.release(NAME, ["a", "b", "c", "d"][i] ?? "", call, i === 0 ? LIMITED : OK);
  }
  expect([await field("target"), await field("limit")]).toEqual([2, 1]);
  await opens();
  await limiter.release(NAME, "e", await admit("e"), OK);
  expect(await field("limit")).toBe(2);
  await limiter.release(NAME, "e", await admit("e"), OK);
  await limiter.release(NAME, "e", await admit("e"), OK);
  expect(await field("limit")).toBeGreaterThan(2.8);
  expect(await field("limit")).toBeLessThan(3);
});

test("a refusal of the only call in flight lets one through at a time, and from there one more a round", async () => {
  const { limiter, admit, opens, field } = limiterRig({ limiterBackoffMs: 2 });
  const call = async (how: LimiterRelease) => limiter.release(NAME, "a", await admit("a"), how);
  await call(LIMITED);
  await opens();
  await call(OK);
  await call(LIMITED);
  await opens();
  for (let i = 0; i < 2; i += 1) await call(OK);
  expect(await field("limit")).toBe(2.5);
});

test("a dead holder's place frees itself, one that is kept does not", async () => {
  const { limiter, admit, opens, redis, keys, waitOf } = limiterRig({ limiterBackoffMs: 2, leaseMs: 60_000 });
  await limiter.release(NAME, "a", await admit("a"), LIMITED);
  await opens();
  await admit("dead");
  const passes = (ms: number) => redis.zincrby(keys.limiterHolders(NAME), -ms, "dead");
  await waitOf("b");
  await passes(40_000);
  await limiter.keep(NAME, "dead");
  await passes(40_000);
  await waitOf("c");
  expect(await limiter.list()).toMatchObject([{ holders: 1 }]);
  await passes(20_000);
  expect(await limiter.list()).toMatchObject([{ holders: 0 }]);
  expect((await limiter.acquire(NAME, "b")).status).toBe("open");
});

test("a call under way keeps its place while the limiter is closed", async () => {
  const { limiter, admit, opens, redis, keys, redisNow } = limiterRig({ limiterBackoffMs: 500 });
  await limiter.release(NAME, "a", await admit("a"), LIMITED);
  await opens();
  await limiter.release(NAME, "a", await admit("a"), OK);
  await admit("under way");
  await limiter.release(NAME, "b", await admit("b"), { ...LIMITED, retryAfterMs: 60_000 });
  await redis.zadd(keys.limiterHolders(NAME), (await redisNow()) + 5_000, "under way");
  await limiter.keep(NAME, "under way");
  const until = Number(await redis.zscore(keys.limiterHolders(NAME), "under way"));
  expect(until).toBeGreaterThan((await redisNow()) + 5_000);
  expect(await limiter.list()).toMatchObject([{ state: "closed", holders: 1, waiting: 0 }]);
});

test("a run that never came back is not among those who wait any more", async () => {
  const { limiter, admit, waitOf, redis, keys } = limiterRig();
  await limiter.release(NAME, "a", await admit("a"), { ...LIMITED, retryAfterMs: 50_000 });
  for (const run of ["gone", "b"]) await waitOf(run);
  await redis.zincrby(keys.limiterWaiting(NAME), -TIMING.limiterQuietMs - 60_000, "gone");
  await waitOf("b");
  expect(await limiter.list()).toMatchObject([{ waiting: 1 }]);
});

test("those who wait come back one behind the other, and asking again keeps the place in the line", async () => {
  const { limiter, admit, waitOf, redis, keys } = limiterRig();
  await limiter.release(NAME, "a", await admit("a"), { ...LIMITED, retryAfterMs: 50_000 });
  for (const run of ["b", "c", "d"]) await waitOf(run);
  const line = () => redis.zrange(keys.limiterWaiting(NAME), 0, -1, "WITHSCORES");
  const appointments = await line();
  await waitOf("b");
  expect(await line()).toEqual(appointments);
  const [b = 0, c = 0, d = 0] = ["b", "c", "d"].map((run) =>
    Number(appointments[appointments.indexOf(run) + 1]),
  );
  expect([c - b, d - c]).toEqual([200, 200]);
  expect(await limiter.list()).toMatchObject([{ waiting: 3 }]);
});

test("a wait of hours is asked about again after a minute, and is forgotten by nobody", async () => {
  const { limiter, admit, waitOf, redis, keys } = limiterRig();
  await limiter.release(NAME, "a", await admit("a"), { ...LIMITED, retryAfterMs: 5 * 3_600_000 });
  expect(await waitOf("b")).toBeLessThanOrEqual(60_000);
  expect(await redis.pttl(keys.limiter(NAME))).toBeGreaterThan(5 * 3_600_000);
});

test("a wait of a year, which is a mistake of the provider, ends after a day", async () => {
  const { limiter, admit, redis, keys, field } = limiterRig();
  await limiter.release(NAME, "a", await admit("a"), { ...LIMITED, retryAfterMs: 365 * 24 * 3_600_000 });
  const closedMs = (await field("until")) - (await redisNowMs(redis));
  expect(closedMs / 3_600_000).toBeGreaterThan(23);
  expect(closedMs / 3_600_000).toBeLessThan(25);
  const keptMs = await redis.pttl(keys.limiter(NAME));
  expect(keptMs).toBeLessThan(26 * 3_600_000);
  // Whoever reads the limiters finds it by its name, as long as it is closed.
  expect(await redis.pttl(keys.limiters)).toBeGreaterThan(keptMs);
});

test("a refused credential is one run's end and everybody else's wait; a probe that is refused again is no end", async () => {
  const { limiter, admit, waitOf, opens, field, everything } = limiterRig({
    breakerMs: 400,
    longestBreakerMs: 600,
  });
  const [a, b] = [await admit("a"), await admit("b")];
  expect(await limiter.release(NAME, "a", a, DENIED)).toBe("first");
  expect(await limiter.release(NAME, "b", b, DENIED)).toBe("known");
  expect(await limiter.list()).toMatchObject([{ state: "denied", reason: "authentication" }]);
  await waitOf("b");
  await opens();
  const probe = await admit("b");
  // Sent again, it is no more the end of the run that made it.
  for (let i = 0; i < 2; i += 1) expect(await limiter.release(NAME, "b", probe, DENIED)).toBe("known");
  expect((await field("until")) - (await field("since"))).toBe(600);
  await waitOf("c");
  await opens();
  await limiter.release(NAME, "c", await admit("c"), OK);
  expect(await everything()).toEqual({});
  expect((await limiter.acquire(NAME, "b")).status).toBe("open");
});

test.for([
  [10_000, 10_500],
  [24 * 3_600_000, 24 * 3_600_000 + 30_000],
])(
  "a wait of %i ms that the provider asks for is spread by a tenth, and by no more than the longest back-off",
  async ([retryAfterMs, closedMs]) => {
    const { redis, keys } = verbRig();
    const timing = { ...TIMING, longestLimiterBackoffMs: 60_000 };
    const limiter = createProviderLimiter(redis, keys, timing, () => 0.5);
    const admission = await limiter.acquire(NAME, "a");
    if (admission.status !== "open") return expect.unreachable();
    await limiter.release(NAME, "a", admission, { ...LIMITED, retryAfterMs });
    const [until, since] = await redis.hmget(keys.limiter(NAME), "until", "since");
    expect(Number(until) - Number(since)).toBe(closedMs);
  },
);

test("a credential that is refused while the provider has asked for a longer wait opens no earlier", async () => {
  const { limiter, admit, field } = limiterRig({ breakerMs: 400 });
  const [a, b] = [await admit("a"), await admit("b")];
  await limiter.release(NAME, "a", a, { ...LIMITED, retryAfterMs: 60_000 });
  const until = await field("until");
  await limiter.release(NAME, "b", b, DENIED);
  expect(await field("until")).toBe(until);
});

test("a credential that is refused while the limiter is slowed has somebody who found it", async () => {
  const { limiter, admit, field } = limiterRig({ limiterBackoffMs: 2, breakerMs: 400 });
  const [a, b, c] = [await admit("a"), await admit("b"), await admit("c")];
  await limiter.release(NAME, "a", a, LIMITED);
  expect(await limiter.release(NAME, "b", b, DENIED)).toBe("first");
  expect((await field("until")) - (await field("since"))).toBe(400);
  expect(await limiter.release(NAME, "c", c, DENIED)).toBe("known");
});

test("an answer that is sent again says the same and counts once", async () => {
  const { limiter, admit, opens, everything } = limiterRig({ breakerMs: 50, limiterBackoffMs: 5 });
  const twice = async (run: string, admission: Admission, how: LimiterRelease) => {
    const word = await limiter.release(NAME, run, admission, how);
    const stands = await everything();
    expect(await limiter.release(NAME, run, admission, how)).toBe(word);
    expect(await everything()).toEqual(stands);
  };
  await twice("a", await admit("a"), { ...LIMITED, retryAfterMs: 20 });
  await opens();
  await twice("b", await admit("b"), OK);
  const [c, d] = [await admit("c"), await admit("d")];
  await twice("c", c, DENIED);
  await twice("d", d, DENIED);
});

test("a list is of all limiters, or of those whose names begin with a text", async () => {
  const { limiter } = limiterRig();
  const early = { status: "open", enteredAt: Number.MAX_SAFE_INTEGER, holdsSlot: false } as const;
  for (const name of ["b/1/m", "a/1/m", "a/1/n"]) await limiter.release(name, "r", early, LIMITED);
  const names = async (beginning?: string) => (await limiter.list(beginning)).map(({ name }) => name);
  expect(await names()).toEqual(["a/1/m", "a/1/n", "b/1/m"]);
  expect(await names("a/1/")).toEqual(["a/1/m", "a/1/n"]);
});

test("the names of limiters that have expired leave while others close, and those of the others stay", async () => {
  const { limiter, redis, keys } = limiterRig();
  const early = { status: "open", enteredAt: Number.MAX_SAFE_INTEGER, holdsSlot: false } as const;
  await redis.sadd(keys.limiters, ...Array.from({ length: 100 }, (_, n) => `gone/${n}`));
  await limiter.release("there", "r", early, LIMITED);
  // With forty closings the sample leaves ten and more names once in some hundred runs, with eighty none.
  for (let n = 0; n < 80; n++) await limiter.release(NAME, `r-${n}`, early, LIMITED);
  const left = await redis.smembers(keys.limiters);
  expect(left).toEqual(expect.arrayContaining(["there", NAME]));
  expect(left.length).toBeLessThan(10);
});

test("a limiter at which nobody waits is forgotten", async () => {
  const { limiter, admit, keys, redisReaches, redisNow, everything } = limiterRig({
    limiterBackoffMs: 2,
    limiterQuietMs: 30,
    leaseMs: 20,
  });
  await limiter.release(NAME, "a", await admit("a"), LIMITED);
  await redisReaches((await redisNow()) + 40);
  expect(await limiter.list()).toEqual([]);
  expect((await admit("b")).holdsSlot).toBe(false);
  expect(Object.keys(await everything())).toEqual([keys.limiters]);
});

test("a clock of Redis that is set back closes no limiter: calls are let through until the next refusal", async () => {
  const { redis, keys, limiter, admit, waitOf, redisNow } = limiterRig({ limiterBackoffMs: 60_000 });
  await limiter.release(NAME, "a", await admit("a"), LIMITED);
  await waitOf("b");
  const backMs = 3_600_000;
  const setBack = async () => {
    for (const field of ["until", "since"]) await redis.hincrby(keys.limiter(NAME), field, backMs);
    for (const run of await redis.zrange(keys.limiterWaiting(NAME), 0, -1))
      await redis.zincrby(keys.limiterWaiting(NAME), backMs, run);
  };
  await setBack();
  const admission = await admit("b");
  expect(admission.holdsSlot).toBe(false);
  expect(await limiter.list()).toEqual([]);
  await limiter.release(NAME, "b", admission, LIMITED);
  expect(await waitOf("c")).toBeLessThanOrEqual(120_000);
  await setBack();
  expect(await limiter.release(NAME, "d", admission, LIMITED)).toBe("known");
  const until = Number(await redis.hget(keys.limiter(NAME), "until"));
  expect(until - (await redisNow())).toBeLessThanOrEqual(120_000);
});
