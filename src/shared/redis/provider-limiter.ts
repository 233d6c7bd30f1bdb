/**
 * The limiter before a provider: a refusal that one run meets (429, 529, a refused credential) limits all workers. Owns the
 * limiters' state in Redis, which expires by itself. Its neighbours: `worker/run/provider-limit.ts` decides how a run reacts
 * to an answer, `pause.ts` owns the pause that is checked in the same step.
 *
 * 1. A healthy limiter has no state: asking writes nothing, and no worker reports the end of a call.
 * 2. A slot is a lease, never a count: the slot of a dead worker frees itself.
 * 3. After it was closed, a limiter first lets one call through. Each success adds one, up to half of the calls in flight
 *    when it was last closed; from there each round adds one.
 * 4. Waiting runs ask again one by one, at a bounded rate however many they are, and no later than `limiterAskMs` plus
 *    their place in the line: another limiter may be theirs by then.
 * 5. Once the limiter has opened, `next` calls as many of them as have room, those that have made a call first. So they come
 *    back as fast as the provider takes calls, and no run that comes later overtakes them.
 */
import { unlessMistyped } from "../errors.ts";
import { isoTime } from "../protocol/agent.ts";
import type { Keys } from "../protocol/keys.ts";
import { LIMITER_LATE_MS, TIMING, type Timing } from "../protocol/limits.ts";
import { DAY_MS } from "../protocol/usage.ts";
import { numberIn } from "./codec.ts";
import type { RedisClient } from "./connection/connection.ts";
import { redisNowMs } from "./redis-time.ts";
import { loadScripts } from "./scripts.ts";

/** Outcome of a call: `limited`, the provider asks for less; `denied`, it refuses the credential; `neutral`, neither. */
export type LimiterOutcome = "ok" | "limited" | "denied" | "neutral";

/** A call that may begin. `holdsSlot`: the limiter is slowed, and the call must renew and release its slot. */
export interface Admission {
  status: "open";
  /** Time of its admission, epoch ms of Redis. */
  enteredAt: number;
  holdsSlot: boolean;
}

/** The answer to a run that asks. `wait`: ask again after `waitMs`; `reason` is the cause of the limit. */
export type LimiterAnswer =
  | Admission
  | { status: "wait"; waitMs: number; reason: string }
  | { status: "paused" };

/** The end of a call. */
export interface LimiterRelease {
  outcome: LimiterOutcome;
  /** Its result, for people: `rate_limited`, `authentication`, … */
  reason: string;
  /** Wait that the provider asked for, ms; honoured up to a day. */
  retryAfterMs?: number;
}

/** A limiter that is not healthy, for readiness and doctor. */
export interface LimiterState {
  name: string;
  /** `slowed`: slots are limited; `closed`: no call is let through; `denied`: the credential is refused. */
  state: "slowed" | "closed" | "denied";
  /** Time at which calls are let through again, ISO 8601; absent if they are now. */
  until?: string;
  reason: string;
  /** Calls let through in parallel, once it is open. */
  limit?: number;
  /** Calls that hold a slot now. */
  holders: number;
  /** Runs that have still to ask again; not those that were called, or due, and have not come. */
  waiting: number;
}

/** See the module's header. `run` is the deadline set's member of the agent: a run makes one call at a time. */
export interface ProviderLimiter {
  /** Asks if `run` may call now; writes nothing while the limiter `name` is healthy. `resumes`: it has made a call before. */
  acquire(name: string, run: string, how?: { resumes: boolean }): Promise<LimiterAnswer>;
  /** Extends the slot of a call under way by another `leaseMs`. */
  keep(name: string, run: string): Promise<void>;
  /**
   * Reports the end of a call. Required if it held a slot, or was `limited` or `denied`. `first`: no worker knew that the
   * credential is refused. `known`: the limiter was closed for it already, so this run is not to blame.
   */
  release(
    name: string,
    run: string,
    admission: Admission,
    how: LimiterRelease,
  ): Promise<"left" | "first" | "known">;
  /** Calls the runs that are next, as many as there is room for now; the caller must wake them. */
  next(name: string): Promise<readonly string[]>;
  /** Reads the runs that are next after those, at most {@link MOST_CALLED} of each line; changes nothing. */
  line(name: string): Promise<readonly string[]>;
  /**
   * Lists every limiter that is not healthy and whose name begins with `beginning` (default: all), by name. Skips keys of another
   * type.
   */
  list(beginning?: string): Promise<LimiterState[]>;
}

/** A run that finds all slots taken asks again after this long: longer than a worker holds its slot for a wait. */
const NO_SLOT_MS = 2_500;
/** Interval at which waiting calls probe the provider, divided by their number. */
const SPACING_MS = 200;
/** Most runs that one worker calls at a time. */
const MOST_CALLED = 100;
/** Difference between the clocks of a cluster's nodes that hides no limiter. */
const SKEW_MS = 1_000;
/** Longest wait a provider can ask for. */
const LONGEST_RETRY_AFTER_MS = DAY_MS;
/** The last moment that a date can say, epoch ms. */
const LATEST_MS = 8_640_000_000_000_000;
/** Names outlive every limiter. */
const NAMES_TTL_MS = 2 * LONGEST_RETRY_AFTER_MS;

/** Returns the limiters on `redis`; `random` returns a number in [0, 1). */
export function createProviderLimiter(
  redis: RedisClient,
  keys: Keys,
  timing: Timing = TIMING,
  random: () => number = Math.random,
): ProviderLimiter {
  const scripts = loadScripts(redis, keys, timing);
  const ask = (name: string, run: string, { resumes = false, underWay = false } = {}) =>
    scripts.run("limiter-acquire", undefined, {
      name,
      run_id: run,
      resumes,
      under_way: underWay,
      slot_ms: timing.leaseMs,
      ask_ms: timing.limiterAskMs,
      no_slot_ms: NO_SLOT_MS,
      spacing_ms: SPACING_MS,
      quiet_ms: timing.limiterQuietMs,
    });
  return {
    async acquire(name, run, how) {
      const answer = await ask(name, run, how);
      switch (answer.status) {
        case "open":
          return { status: "open", enteredAt: answer.at, holdsSlot: answer.slot };
        case "wait":
          return { status: "wait", waitMs: answer.wait_ms, reason: answer.reason };
        case "paused":
          return { status: "paused" };
      }
    },
    async keep(name, run) {
      await ask(name, run, { underWay: true });
    },
    async release(name, run, { enteredAt }, how) {
      const args = { name, run_id: run, entered_at: enteredAt, jitter: random(), ...leaveArgs(how, timing) };
      return (await scripts.run("limiter-release", undefined, args)).status;
    },
    async next(name) {
      const how = { slot_ms: timing.leaseMs, most: MOST_CALLED };
      return (await scripts.run("limiter-next", undefined, { name, ...how })).runs;
    },
    line: (name) => readLine(redis, keys, name),
    list: (beginning = "") => readStates(redis, keys, beginning),
  };
}

/** Reads the states of {@link ProviderLimiter.list}: a key of the wrong type hides no other one, as every worker reads them. */
async function readStates(redis: RedisClient, keys: Keys, beginning: string): Promise<LimiterState[]> {
  const all = await unlessMistyped(redis.smembers(keys.limiters), []);
  const names = all.filter((name) => name.startsWith(beginning)).sort();
  const states = names.map((name) => unlessMistyped(stateOf(redis, keys, name), undefined));
  return (await Promise.all(states)).flatMap((state) => state ?? []);
}

async function readLine(redis: RedisClient, keys: Keys, name: string): Promise<string[]> {
  const after = `(${await redisNowMs(redis)}`;
  const lines = [keys.limiterResuming(name), keys.limiterWaiting(name)];
  const read = (key: string) => redis.zrange(key, after, "+inf", "BYSCORE", "LIMIT", 0, MOST_CALLED);
  return (await Promise.all(lines.map(read))).flat();
}

function leaveArgs({ outcome, reason, retryAfterMs }: LimiterRelease, timing: Timing) {
  return {
    outcome,
    reason,
    ...(retryAfterMs !== undefined && {
      retry_after_ms: Math.ceil(Math.min(retryAfterMs, LONGEST_RETRY_AFTER_MS)),
    }),
    backoff_ms: timing.limiterBackoffMs,
    longest_backoff_ms: timing.longestLimiterBackoffMs,
    breaker_ms: timing.breakerMs,
    longest_breaker_ms: timing.longestBreakerMs,
    quiet_ms: timing.limiterQuietMs,
    names_ttl_ms: NAMES_TTL_MS,
  };
}

/**
 * Reads a limiter, also one with values that no script wrote, as `limiter-acquire` does: it may be closed for ever, and one that
 * was closed by a clock that was set back since does not hold.
 */
async function stateOf(redis: RedisClient, keys: Keys, name: string): Promise<LimiterState | undefined> {
  const fields = await redis.hgetall(keys.limiter(name));
  if (fields.until === undefined) return undefined;
  const now = await redisNowMs(redis);
  if (numberIn(fields.since) > now + SKEW_MS) return undefined;
  const [holders, waiting, resuming] = await Promise.all([
    redis.zcount(keys.limiterHolders(name), `(${now}`, "+inf"),
    redis.zcount(keys.limiterWaiting(name), now - LIMITER_LATE_MS, "+inf"),
    redis.zcount(keys.limiterResuming(name), now - LIMITER_LATE_MS, "+inf"),
  ]);
  const until = numberIn(fields.until);
  const isClosed = until > now;
  return {
    name,
    state: fields.state === "denied" ? "denied" : isClosed ? "closed" : "slowed",
    ...(isClosed && { until: isoTime(Math.min(until, LATEST_MS)) }),
    reason: fields.reason ?? "",
    limit: Math.floor(numberIn(fields.limit)),
    holders,
    waiting: waiting + resuming,
  };
}
