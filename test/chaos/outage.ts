/** Runs in flight, a fault that takes Redis away, its end: everything that must hold, and the figures. */
import { expect } from "vitest";
import { until } from "../helpers/until.ts";
import type { CommandLineWorker, ProxiedStage } from "../stage/stage.ts";
import { type Attempt, holdsForProducers, keepSpawning, startBatch } from "./troubled-runs.ts";

/** So soon after healing work is taken again. */
const RESUMES_WITHIN_MS = 30_000;
/** So soon after the fault the worker says that it is not ready. */
const NOTICED_WITHIN_MS = 10_000;

/** Something that takes Redis away, and gives it back. */
export interface Fault {
  begin(): unknown;
  end(): unknown;
}

/** Where it happens. */
export interface Place {
  stage: ProxiedStage;
  worker: CommandLineWorker;
}

/** Time in which a producer's calls are over that begin without a Redis, also on a busy machine. */
const CALLS_OVER_WITHIN_MS = 30_000;
/** A fault of this length or longer meets two calls of a producer, one after the other. */
const MEETS_TWO_CALLS_MS = 2_000;

/** Begins the fault with runs in flight, ends it after `ms`, and checks everything that must hold. */
export async function endures(place: Place, title: string, fault: Fault, ms: number): Promise<void> {
  await endureAnd(place, title, { ...fault, ms, calls: 0 });
}

/**
 * As {@link endures}; and the fault goes on until calls have been made in it from beginning to end, so that each must have been
 * told. Of two in a row the first has given up the connection, whatever it was told: the second finds none to send on, so that
 * nothing can be unknown.
 */
export async function enduresAndTells(place: Place, title: string, fault: Fault, ms: number): Promise<void> {
  const calls = ms >= MEETS_TWO_CALLS_MS ? 2 : 1;
  const met = await endureAnd(place, title, { ...fault, ms, calls });
  const outcomes = met.map(({ outcome }) => outcome);
  expect(outcomes.length).toBeGreaterThanOrEqual(calls);
  for (const outcome of outcomes) expect(["redis_unavailable", "outcome_unknown"]).toContain(outcome);
  for (const outcome of outcomes.slice(1)) expect(outcome).toBe("redis_unavailable");
}

/** A fault that lasts `ms`, and until so many calls of a producer were made in it. */
interface Outage extends Fault {
  ms: number;
  calls: number;
}

/** Resolves with the calls that began and ended while Redis was away. */
async function endureAnd(
  { stage, worker }: Place,
  title: string,
  { begin, end, ms, calls: metCalls }: Outage,
): Promise<Attempt[]> {
  const parentId = title.replace(/\W+/g, "-");
  const batch = await startBatch(stage, parentId);
  const producer = keepSpawning(stage.parent(`${parentId}-producer`));
  expect(await worker.readiness()).toMatchObject({ ready: true, redis: "ready", reasons: [] });

  const beganMs = performance.now();
  await begin();
  await until(async () => !(await worker.readiness()).ready, {
    timeoutMs: NOTICED_WITHIN_MS,
    what: "the worker to say that it is not ready",
  });
  const awayAtMs = performance.now();
  const met = () => producer.attempts.filter(({ startedMs }) => startedMs >= awayAtMs);
  await until(() => performance.now() - beganMs >= ms, { timeoutMs: ms + 1_000 });
  await until(() => met().length >= metCalls, { timeoutMs: CALLS_OVER_WITHIN_MS, what: "calls to be over" });
  if (ms > 0) expect(await worker.readiness()).toMatchObject({ ready: false, redis: "away" });
  const metAttempts = met();
  await end();

  const healedMs = performance.now();
  const probe = stage.parent(`${parentId}-probe`);
  const reply = until(() => probe.task({ prompt: "probe", request_key: "probe" }).catch(() => undefined), {
    timeoutMs: 60_000,
  });
  const served = stage.offline.ledger.length;
  await until(() => stage.offline.ledger.length > served, {
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
  const doneMs = performance.now() - healedMs;
  const attempts = await producer.stop();
  const figures = {
    noticedMs: awayAtMs - beganMs,
    resumedMs,
    readyMs,
    doneMs,
    slowestMs: Math.max(...attempts.map(({ tookMs }) => tookMs)),
    calls,
    outcomes: [...new Set(attempts.map(({ outcome }) => outcome))],
  };
  process.stdout.write(`${title}: ${JSON.stringify(figures)}\n`);
  await holdsForProducers(stage, `${parentId}-producer`, attempts);
  expect(worker.isRunning).toBe(true);
  return metAttempts;
}
