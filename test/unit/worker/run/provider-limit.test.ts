import { expect, test } from "vitest";
import { systemClock } from "../../../../src/shared/clock.ts";
import { createLogger } from "../../../../src/shared/logger.ts";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import { closeRedis, openRedis } from "../../../../src/shared/redis/connection/connection.ts";
import { createPause, PAUSE_KNOWN_MS } from "../../../../src/shared/redis/pause.ts";
import { createProviderLimiter } from "../../../../src/shared/redis/provider-limiter.ts";
import { createAnthropicModel } from "../../../../src/worker/model/anthropic/model.ts";
import type { FailureKind } from "../../../../src/worker/model/model.ts";
import type { Lease } from "../../../../src/worker/run/lease.ts";
import { limiterNameOf, meaningOf, ProviderLimit } from "../../../../src/worker/run/provider-limit.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { redisUrl, uniquePrefix } from "../../../helpers/redis.ts";
import { until } from "../../../helpers/until.ts";

const failure = (kind: FailureKind, retryAfterMs?: number) => ({
  kind,
  retryable: true,
  message: "",
  ...(retryAfterMs !== undefined && { retryAfterMs }),
});

test.for(["rate_limited", "overloaded"] as const)("%s asks everybody for less", (kind) => {
  expect(meaningOf(failure(kind))).toBe("limited");
});

test("whatever asks to wait asks everybody", () => {
  expect(meaningOf(failure("server_error", 0))).toBe("limited");
});

test("what is refused for good asks nobody to wait, whatever it says of waiting", () => {
  expect(meaningOf({ ...failure("invalid_request", 60_000), retryable: false })).toBe("neutral");
});

test.for(["authentication", "permission", "billing"] as const)(
  "%s is met by every call with the credential, also when it says how long to wait",
  (kind) => {
    expect(meaningOf(failure(kind))).toBe("denied");
    expect(meaningOf(failure(kind, 1_000))).toBe("denied");
  },
);

test.for([
  "server_error",
  "network",
  "timeout",
  "context_window",
  "invalid_request",
  "not_found",
  "invalid_response",
] as const)("%s says nothing about the calls of others", (kind) => {
  expect(meaningOf(failure(kind))).toBe("neutral");
});

test("a limiter is named by host, credential and model, and shows no part of the credential", async () => {
  const names = await Promise.all(
    [
      { apiKey: "sk-ant-secret-1" },
      { apiKey: "sk-ant-secret-2" },
      { apiKey: "sk-ant-secret-1", baseUrl: "http://me:sk-ant-word@127.0.0.1:8787/x" },
    ].map(async (options) => {
      const model = createAnthropicModel(options);
      const named = [limiterNameOf(model, "claude-haiku-5-5"), limiterNameOf(model, "claude-opus-5-5")];
      await model.stop();
      return named;
    }),
  );
  expect(names[0]?.[0]).toMatch(/^api\.anthropic\.com\/[0-9a-f]{8}\/claude-haiku-5-5$/);
  expect(names[2]?.[0]).toMatch(/^127\.0\.0\.1:8787\/[0-9a-f]{8}\/claude-haiku-5-5$/);
  expect(new Set(names.flat()).size).toBe(6);
  expect(names.join()).not.toContain("sk-ant");
});

test("the same host and credential have the same limiter in every process", async () => {
  const models = [createAnthropicModel({ apiKey: "k" }), createAnthropicModel({ apiKey: "k" })];
  const [one, other] = models.map((model) => limiterNameOf(model, "m"));
  expect(one).toBe(other);
  await Promise.all(models.map((model) => model.stop()));
});

test("a model that names none has one limiter for each model id", () => {
  expect(limiterNameOf({}, "m-1")).toBe("custom/m-1");
});

test("a limiter that cannot be asked is open: it spares the provider, the lease guards the run", async () => {
  const redis = openRedis(redisUrl(), "producer");
  closeRedis(redis);
  const keys = keysUnder(uniquePrefix());
  const logger = createLogger({ level: "silent" });
  const limit = new ProviderLimit({
    limiter: createProviderLimiter(redis, keys),
    tellOthers: () => {},
    wakeEarly: async () => true,
    pause: createPause(redis, keys),
    clock: systemClock,
    timing: TIMING,
    logger,
  });
  const lease = { address: { uid: "sa-0" }, isLive: () => true } as Lease;
  expect(await limit.acquire("host/key/model", lease)).toMatchObject({ status: "open" });
});

test("the place of a call is kept again and again while its lease is alive, and not when the call is over", async () => {
  const redis = openRedis(redisUrl(), "producer");
  closeAtEnd(() => closeRedis(redis));
  const keys = keysUnder(uniquePrefix());
  const real = createProviderLimiter(redis, keys);
  let kept = 0;
  const keep: typeof real.keep = (name, uid) => {
    kept++;
    return real.keep(name, uid);
  };
  const clock = handClock();
  const limit = new ProviderLimit({
    limiter: { ...real, keep },
    tellOthers: () => {},
    wakeEarly: async () => true,
    pause: createPause(redis, keys),
    clock,
    timing: TIMING,
    logger: createLogger({ level: "silent" }),
  });
  const lease = { address: { uid: "sa-0" }, isLive: () => true } as Lease;
  const limited = { outcome: "limited", reason: "overloaded", retryAfterMs: 1 } as const;
  const unasked = { status: "open", enteredAt: 0, holdsSlot: false } as const;
  await until(() => real.release("host/key/m", "sa-1", unasked, limited).then(() => true));
  const admitted = await until(async () => {
    const passage = await limit.acquire("host/key/m", lease);
    return passage.status === "open" && passage;
  });
  for (let turn = 1; turn <= 3; turn++) {
    clock.advance(TIMING.renewMs);
    expect(kept).toBe(turn);
  }
  await admitted.release({ status: "aborted" });
  clock.advance(TIMING.renewMs);
  expect([kept, clock.pending]).toEqual([3, 0]);
});

test("while Redis does not answer, one reading waits for it, however long it takes", async () => {
  const redis = openRedis(redisUrl(), "producer");
  closeAtEnd(() => closeRedis(redis));
  const keys = keysUnder(uniquePrefix());
  const clock = handClock();
  const answers: ((limiters: []) => void)[] = [];
  const list = () => new Promise<[]>((resolve) => answers.push(resolve));
  const limit = new ProviderLimit({
    limiter: { ...createProviderLimiter(redis, keys), list },
    tellOthers: () => {},
    wakeEarly: async () => true,
    pause: createPause(redis, keys),
    clock,
    timing: TIMING,
    logger: createLogger({ level: "silent" }),
  });
  for (let i = 0; i < 2; i += 1) limit.start();
  clock.advance(60_000);
  expect(answers).toHaveLength(1);
  answers[0]?.([]);
  await until(() => {
    clock.advance(1_000);
    return answers.length > 1;
  });
  limit.stop();
  expect(clock.pending).toBe(0);
});

/** The limit of a process whose reads are answered by the test; `told` has the limiters that it tells others of. */
async function answered() {
  const redis = openRedis(redisUrl(), "producer");
  closeAtEnd(() => closeRedis(redis));
  await until(() => redis.status === "ready");
  const keys = keysUnder(uniquePrefix());
  const clock = handClock();
  const answers: ((limiters: []) => void)[] = [];
  const told: string[] = [];
  const limit = new ProviderLimit({
    limiter: {
      ...createProviderLimiter(redis, keys),
      list: () => new Promise<[]>((resolve) => answers.push(resolve)),
    },
    tellOthers: (name) => void told.push(name),
    wakeEarly: async () => true,
    pause: createPause(redis, keys),
    clock,
    timing: TIMING,
    logger: createLogger({ level: "silent" }),
  });
  closeAtEnd(() => limit.stop());
  const lease = { address: { uid: "sa-0" }, isLive: () => true } as Lease;
  return { limit, lease, clock, told, answer: () => answers.shift()?.([]) };
}

test("no call begins on knowledge that is too old: Redis is asked", async () => {
  const { limit, lease, clock, answer } = await answered();
  limit.start();
  answer();
  const isKnown = () => !(limit.acquire("host/key/m", lease) instanceof Promise);
  await until(isKnown);
  clock.advance(PAUSE_KNOWN_MS - 1);
  expect(isKnown()).toBe(true);
  clock.advance(1);
  expect(isKnown()).toBe(false);
});

test("a limit that a call meets is told to the other processes, by its name", async () => {
  const { limit, lease, told, answer } = await answered();
  limit.start();
  answer();
  const permit = await until(() => {
    const answer = limit.acquire("host/key/m", lease);
    return !(answer instanceof Promise) && answer;
  });
  if (permit.status !== "open") throw new RangeError("a healthy provider");
  await permit.release({ status: "failed", failure: failure("rate_limited", 1) });
  expect(told).toEqual(["host/key/m"]);
});

test("a problem that is met while a read is on its way outlives that read, not the next one", async () => {
  const { limit, lease, clock, answer } = await answered();
  limit.start();
  limit.suspect("host/key/m");
  answer();
  const isKnown = (model: string) => !(limit.acquire(`host/key/${model}`, lease) instanceof Promise);
  await until(() => isKnown("other"));
  expect(isKnown("m")).toBe(false);
  clock.advance(1_000);
  answer();
  await until(() => isKnown("m"));
});
