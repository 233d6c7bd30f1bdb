/**
 * Guarantee: a worker outlives its Redis, whatever becomes of it, in the same process: runs in flight succeed once,
 * nothing committed is bought again, it says that it is not ready meanwhile, and takes work again by itself.
 * `TROUBLE=long` adds outages of 20 and 60 s.
 */
import { beforeAll, expect, test } from "vitest";
import { until } from "../helpers/until.ts";
import {
  keepSpawning,
  openTroubleScene,
  startBatch,
  type TroubledWorker,
  type TroubleScene,
} from "./trouble-scene.ts";

const LONG = process.env.TROUBLE === "long";
const OUTAGES_MS = LONG ? [2_000, 8_000, 20_000, 60_000] : [2_000, 8_000];
const BLACKHOLE_MS = LONG ? 60_000 : 12_000;
/** So soon after healing work is taken again. */
const RESUMES_WITHIN_MS = 30_000;
/** So soon after the fault the worker says that it is not ready. */
const NOTICED_WITHIN_MS = 10_000;

let scene: TroubleScene;
let worker: TroubledWorker;

beforeAll(async () => {
  scene = await openTroubleScene();
  worker = await scene.startWorker();
}, 90_000);

const passes = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

interface Fault {
  begin(): unknown;
  end(): unknown;
}

/** Runs in flight, the fault for `ms`, its end; everything that must hold. */
async function endures(title: string, fault: Fault, ms: number): Promise<void> {
  const parentId = title.replace(/\W+/g, "-");
  const batch = await startBatch(scene, parentId);
  const producer = keepSpawning(scene.parent(`${parentId}-producer`));
  expect(await worker.readiness()).toMatchObject({ ready: true, redis: "ready", reasons: [] });

  const beganMs = performance.now();
  await fault.begin();
  await until(async () => !(await worker.readiness()).ready, {
    timeoutMs: NOTICED_WITHIN_MS,
    what: "the worker to say that it is not ready",
  });
  const noticedMs = performance.now() - beganMs;
  await passes(ms - (performance.now() - beganMs));
  const during = await worker.readiness();
  expect(during).toMatchObject({ ready: false, redis: "away" });
  await fault.end();

  const healedMs = performance.now();
  const probe = scene.parent(`${parentId}-probe`);
  const reply = until(() => probe.task({ prompt: "probe", request_key: "probe" }).catch(() => undefined), {
    timeoutMs: 60_000,
  });
  const served = scene.offline.ledger.length;
  await until(() => scene.offline.ledger.length > served, {
    timeoutMs: RESUMES_WITHIN_MS,
    what: "a model call",
  });
  const resumedMs = performance.now() - healedMs;
  await until(async () => (await worker.readiness()).ready, {
    timeoutMs: RESUMES_WITHIN_MS,
    what: "ready again",
  });
  const readyMs = performance.now() - healedMs;
  expect(await reply).toMatchObject({ status: "succeeded" });
  const { calls } = await batch.succeedsOnce(60_000);
  const attempts = await producer.stop();
  const figures = {
    noticedMs,
    resumedMs,
    readyMs,
    slowestMs: Math.max(...attempts.map(({ tookMs }) => tookMs)),
    calls,
    outcomes: [...new Set(attempts.map(({ outcome }) => outcome))],
  };
  process.stdout.write(`${title}: ${JSON.stringify(figures)}\n`);
  await holdsForProducers(`${parentId}-producer`, attempts);
  expect(worker.isRunning).toBe(true);
}

/** A refused spawn left nothing; one whose outcome was unknown is one agent at most; one that was done is there. */
async function holdsForProducers(
  parentId: string,
  attempts: Awaited<ReturnType<ReturnType<typeof keepSpawning>["stop"]>>,
) {
  const { redis, keys } = scene;
  const of = keys.parent({ tenant: "default", parentId });
  for (const { key, outcome, tookMs } of attempts) {
    expect(outcome).toMatch(/^(done|quota_exceeded|redis_unavailable|outcome_unknown)$/);
    expect(tookMs, `${key}: ${outcome}`).toBeLessThan(1_000);
    const known = (await redis.exists(of.request(key))) === 1;
    if (outcome === "done") expect(known, `${key} was answered`).toBe(true);
    if (outcome === "redis_unavailable" || outcome === "quota_exceeded")
      expect(known, `${key} was refused`).toBe(false);
  }
  expect(attempts.some(({ outcome }) => outcome === "redis_unavailable")).toBe(true);
}

for (const ms of OUTAGES_MS) {
  test(`Redis is killed and comes back after ${ms} ms`, { timeout: ms + 120_000 }, () =>
    endures(`killed for ${ms} ms`, { begin: () => scene.server.kill(), end: () => scene.server.start() }, ms),
  );
}
for (const ms of LONG ? OUTAGES_MS : [2_000]) {
  test(`connections are refused for ${ms} ms`, { timeout: ms + 120_000 }, () =>
    endures(`refused for ${ms} ms`, { begin: () => scene.proxy.refuse(), end: () => scene.proxy.heal() }, ms),
  );
}

test("Redis is shut down and started again", { timeout: 120_000 }, () =>
  endures("shut down", { begin: () => scene.server.kill("SIGTERM"), end: () => scene.server.start() }, 1_000),
);

test(`everything vanishes in a black hole for ${BLACKHOLE_MS} ms`, { timeout: BLACKHOLE_MS + 120_000 }, () =>
  endures(
    `black hole for ${BLACKHOLE_MS} ms`,
    { begin: () => scene.proxy.blackhole(), end: () => scene.proxy.heal() },
    BLACKHOLE_MS,
  ),
);

test("the other side of every connection is gone without a word", { timeout: 120_000 }, () =>
  endures("stranded", { begin: () => scene.proxy.strand(), end: () => {} }, 0),
);
