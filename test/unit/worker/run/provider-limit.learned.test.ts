/** Guarantee: what one call learns of its provider, or a read of the installation, holds for the next call of the process. */
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { createPause, PAUSE_KNOWN_MS } from "../../../../src/shared/redis/pause.ts";
import {
  createProviderLimiter,
  type ProviderLimiter,
} from "../../../../src/shared/redis/provider-limiter.ts";
import type { Lease } from "../../../../src/worker/run/lease.ts";
import { ProviderLimit } from "../../../../src/worker/run/provider-limit.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { redisUrl, uniquePrefix } from "../../../helpers/redis.ts";
import { until } from "../../../helpers/until.ts";

const NAME = "host/key/m";
const lease = { address: { uid: "sa-0" }, isLive: () => true } as Lease;

/** The limit of a process that has begun to read; `over` replaces parts of its limiter. */
async function scene(over: Partial<ProviderLimiter> = {}) {
  const redis = openRedis(redisUrl(), "producer");
  closeAtEnd(() => closeRedis(redis));
  await until(() => redis.status === "ready");
  const keys = keysUnder(uniquePrefix());
  const clock = handClock();
  const pause = createPause(redis, keys);
  const limit = new ProviderLimit({
    limiter: { ...createProviderLimiter(redis, keys), ...over },
    tellOthers: () => {},
    wakeEarly: async () => true,
    pause,
    clock,
    timing: TIMING,
    logger: createLogger({ level: "silent" }),
  });
  limit.start();
  closeAtEnd(() => limit.stop());
  const isAsked = () => limit.acquire(NAME, lease) instanceof Promise;
  return { limit, clock, pause, isAsked };
}

test("a call behind one that was refused asks at once, and is told to wait", async () => {
  const { limit, isAsked } = await scene();
  await until(() => !isAsked());
  const permit = await limit.acquire(NAME, lease);
  if (permit.status !== "open") throw new Error(permit.status);
  const failure = { kind: "rate_limited", retryable: true, retryAfterMs: 600_000, message: "" } as const;
  const told = permit.release({ status: "failed", failure });
  expect(isAsked()).toBe(true);
  await told;
  expect(await limit.acquire(NAME, lease)).toMatchObject({ status: "wait", reason: "rate_limited" });
});

test("the limiter gets the wait that the provider asked for", async () => {
  const reported: unknown[] = [];
  const release: ProviderLimiter["release"] = async (_name, _run, _admission, how) => {
    reported.push(how);
    return "left";
  };
  const { limit, isAsked } = await scene({ release });
  await until(() => !isAsked());
  const permit = await limit.acquire(NAME, lease);
  if (permit.status !== "open") throw new Error(permit.status);
  const failure = { kind: "overloaded", retryable: true, retryAfterMs: 90_000, message: "" } as const;
  await permit.release({ status: "failed", failure });
  expect(reported).toEqual([{ outcome: "limited", reason: "overloaded", retryAfterMs: 90_000 }]);
});

test("a pause that is over is over for this process with its next read", async () => {
  const { limit, clock, pause, isAsked } = await scene();
  await until(() => !isAsked());
  await pause.begin("budget");
  await until(() => {
    clock.advance(1_000);
    return isAsked();
  });
  expect(await limit.acquire(NAME, lease)).toEqual({ status: "paused" });
  await pause.resume();
  await until(() => {
    clock.advance(1_000);
    return !isAsked();
  });
});

test("knowledge is as old as the question, however long Redis takes to answer", async () => {
  const answers: ((limiters: []) => void)[] = [];
  const list = () => new Promise<[]>((resolve) => answers.push(resolve));
  const { clock, isAsked } = await scene({ list });
  clock.advance(PAUSE_KNOWN_MS - 1);
  answers.shift()?.([]);
  await until(() => !isAsked());
  clock.advance(1);
  expect(isAsked()).toBe(true);
});
