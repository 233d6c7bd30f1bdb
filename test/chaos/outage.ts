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

/** Begins the fault with runs in flight, ends it after `ms`, and checks everything that must hold. */
export async function endures(
  { stage, worker }: Place,
  title: string,
  fault: Fault,
  ms: number,
): Promise<Attempt[]> {
  const parentId = title.replace(/\W+/g, "-");
  const batch = await startBatch(stage, parentId);
  const producer = keepSpawning(stage.parent(`${parentId}-producer`));
  expect(await worker.readiness()).toMatchObject({ ready: true, redis: "ready", reasons: [] });

  const beganMs = performance.now();
  await fault.begin();
  await until(async () => !(await worker.readiness()).ready, {
    timeoutMs: NOTICED_WITHIN_MS,
    what: "the worker to say that it is not ready",
  });
  const noticedMs = performance.now() - beganMs;
  await until(() => performance.now() - beganMs >= ms, { timeoutMs: ms + 1_000 });
  if (ms > 0) expect(await worker.readiness()).toMatchObject({ ready: false, redis: "away" });
  await fault.end();

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
    noticedMs,
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
  return attempts;
}

/** As {@link endures}, with a fault that is long enough to be seen by whoever calls meanwhile. */
export async function enduresAndTells(place: Place, title: string, fault: Fault, ms: number): Promise<void> {
  const attempts = await endures(place, title, fault, ms);
  expect(attempts.map(({ outcome }) => outcome)).toContain("redis_unavailable");
}
