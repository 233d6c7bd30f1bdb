/** Makes Redis unavailable while runs are in flight, checks all guarantees, and prints the times. */
import { expect } from "vitest";
import { until } from "../helpers/until.ts";
import type { CommandLineWorker, ProxiedStage } from "../stage/stage.ts";
import { type Attempt, holdsForProducers, keepSpawning, startBatch } from "./troubled-runs.ts";

/** Time (ms) after the end of the fault within which work must resume. */
const RESUMES_WITHIN_MS = 30_000;
/** Time (ms) after the beginning of the fault within which the worker must report that it is not ready. */
const NOTICED_WITHIN_MS = 10_000;

/** A fault that makes Redis unavailable, and its end. */
export interface Fault {
  begin(): unknown;
  end(): unknown;
}

/** The stage and the worker that the fault affects. */
export interface Place {
  stage: ProxiedStage;
  worker: CommandLineWorker;
}

/** Time (ms) within which a producer's calls without Redis end, even on a busy machine. */
const CALLS_OVER_WITHIN_MS = 30_000;
/** A fault of this length (ms) or longer covers two successive calls of a producer. */
const MEETS_TWO_CALLS_MS = 2_000;

/** Begins the fault with runs in flight, ends it after `ms`, and checks all guarantees. */
export async function endures(place: Place, title: string, fault: Fault, ms: number): Promise<void> {
  await endureAnd(place, title, { ...fault, ms, calls: 0 });
}

/**
 * Does the same as {@link endures}, but continues the fault until producer calls have begun and ended in it, so that each must get
 * an error. The first of two successive calls closes the connection, whatever its error. The second has no connection, so its
 * error cannot be `outcome_unknown`.
 */
export async function enduresAndTells(place: Place, title: string, fault: Fault, ms: number): Promise<void> {
  const calls = ms >= MEETS_TWO_CALLS_MS ? 2 : 1;
  const met = await endureAnd(place, title, { ...fault, ms, calls });
  const outcomes = met.map(({ outcome }) => outcome);
  expect(outcomes.length).toBeGreaterThanOrEqual(calls);
  for (const outcome of outcomes) expect(["redis_unavailable", "outcome_unknown"]).toContain(outcome);
  for (const outcome of outcomes.slice(1)) expect(outcome).toBe("redis_unavailable");
}

/** A fault that lasts at least `ms`, and until `calls` calls of a producer have begun and ended in it. */
interface Outage extends Fault {
  ms: number;
  calls: number;
}

/** Resolves to the calls that began and ended while Redis was unavailable. */
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
