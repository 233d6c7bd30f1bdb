/**
 * Guarantee: a Redis that is there and refuses costs time and nothing else: no answer is bought twice. Without memory, as a
 * read-only replica, without the replicas it wants, unable to save, without its scripts, cutting connections: the worker says why it is not ready, does not ask in a
 * storm, and goes on by itself; producers are told at once.
 */
import { mkdir, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { freePort } from "../helpers/redis-server.ts";
import { until } from "../helpers/until.ts";
import type { CommandLineWorker, ProxiedStage } from "../stage/stage.ts";
import { holdsForProducers, keepSpawning, openTroubledStage, startBatch } from "./troubled-runs.ts";

/** A look at the server, and the time for it. */
const NOTICED_WITHIN_MS = 10_000;
const RESUMES_WITHIN_MS = 30_000;
/** Fewer than the runs: jobs wait while Redis refuses to hand them out. */
const AT_A_TIME = 4;
/** Scripts a second that a worker with eight runs and no work may ask for: renewals, sweeps, tries. */
const STORM = 100;

let stage: ProxiedStage;
let worker: CommandLineWorker;

beforeAll(async () => {
  stage = await openTroubledStage();
  worker = await stage.commandLineWorker({ env: { SUBAGENT_CONCURRENCY: `${AT_A_TIME}` } });
});

async function scriptsRun(): Promise<number> {
  const stats = await stage.observer.info("commandstats");
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

interface Refusal {
  parentId: string;
  begin(): Promise<unknown>;
  /** What the worker says about it. */
  reason: RegExp;
  end(): Promise<unknown>;
}

/** Runs in flight, a refusal until the worker has told and some seconds more, its end; everything that must hold. */
async function endures({ parentId, begin, reason, end }: Refusal): Promise<void> {
  const batch = await startBatch(stage, parentId, AT_A_TIME);
  const linesBefore = worker.stderr.length;
  const beganMs = performance.now();
  await begin();
  const producer = keepSpawning(stage.parent(`${parentId}-producer`));
  const told = await until(
    async () => {
      const now = await worker.readiness();
      return !now.ready && reason.test(now.reasons.join()) && now;
    },
    { timeoutMs: NOTICED_WITHIN_MS, what: `not ready because of ${reason}` },
  );
  expect(told).toMatchObject({ ready: false, redis: "ready" });
  const noticedMs = performance.now() - beganMs;
  const scriptsBefore = await scriptsRun();
  const countingMs = performance.now();
  await until(() => performance.now() - countingMs > 2_000);
  const perSecond = ((await scriptsRun()) - scriptsBefore) / ((performance.now() - countingMs) / 1_000);
  expect(perSecond, "scripts a second while Redis refuses").toBeLessThan(STORM);
  expect((await worker.readiness()).ready).toBe(false);
  await end();

  const healedMs = performance.now();
  await until(async () => (await worker.readiness()).ready, {
    timeoutMs: RESUMES_WITHIN_MS,
    what: "ready again",
  });
  const readyMs = performance.now() - healedMs;
  const { calls, again } = await batch.succeedsOnce(60_000);
  const attempts = await producer.stop();
  const lines = worker.stderr.length - linesBefore;
  process.stdout.write(
    `${parentId}: ${JSON.stringify({ noticedMs, readyMs, perSecond, lines, calls, doneMs: performance.now() - healedMs })}\n`,
  );
  expect(again, "turns bought again").toBe(0);
  expect(lines, "lines in the log").toBeLessThan(200);
  for (const line of worker.stderr) expect(JSON.parse(line)).toHaveProperty("msg");
  await holdsForProducers(stage, `${parentId}-producer`, attempts);
  expect(attempts.map(({ outcome }) => outcome)).toContain("redis_unavailable");
  expect(worker.isRunning).toBe(true);
}

test("a Redis without memory takes no spawns, lets runs end, and is told from a missing one", () =>
  endures({
    parentId: "full",
    begin: () => stage.observer.config("SET", "maxmemory", "1"),
    reason: /^Redis has no memory left|^Redis refuses writes \(OOM/,
    end: () => stage.observer.config("SET", "maxmemory", "0"),
  }));

test("a Redis that has become a read-only replica is waited for", async () => {
  const nobody = await freePort();
  await endures({
    parentId: "replica",
    // Of a master that is not there, so that it keeps what it has.
    begin: () => stage.observer.replicaof("127.0.0.1", nobody),
    reason: /^Redis is a read-only replica$/,
    end: () => stage.observer.replicaof("NO", "ONE"),
  });
});

test("a Redis that refuses every write is not asked in a storm", () =>
  endures({
    parentId: "no-replicas",
    begin: () => stage.observer.config("SET", "min-replicas-to-write", "1"),
    reason: /^Redis refuses writes \(NOREPLICAS/,
    end: () => stage.observer.config("SET", "min-replicas-to-write", "0"),
  }));

test("a Redis that cannot save its snapshot loses no answer, and is told from a missing one", async () => {
  const { observer } = stage;
  const directory = String(await observer.config("GET", "dir")).replace("dir,", "");
  // A directory with the name of the snapshot: Redis can write no file there.
  const snapshot = join(directory, "dump.rdb");
  await endures({
    parentId: "unsaved",
    async begin() {
      await mkdir(snapshot);
      await observer.config("SET", "save", "3600 1");
      await observer.bgsave();
      await until(async () => /rdb_last_bgsave_status:err/.test(await observer.info("persistence")));
    },
    // What a write was answered, until a look at the server names the snapshot.
    reason: /^Redis refuses writes(?: \(MISCONF|, because it cannot write a snapshot)/,
    async end() {
      await rmdir(snapshot);
      await observer.config("SET", "save", "");
    },
  });
});

test("scripts that are flushed again and again, and connections that are cut, hold nothing up", async () => {
  const { redis } = stage;
  const batch = await startBatch(stage, "flushed", AT_A_TIME);
  const cutBefore = stage.proxy.counts.accepted;
  for (let round = 0; round < 10; round++) {
    const roundMs = performance.now();
    await redis.script("FLUSH");
    await redis.client("KILL", "TYPE", round % 2 === 0 ? "normal" : "pubsub", "SKIPME", "yes");
    await until(() => performance.now() - roundMs > 200);
  }
  const { calls } = await batch.succeedsOnce(60_000);
  expect(stage.proxy.counts.accepted - cutBefore).toBeGreaterThan(10);
  process.stdout.write(`flushed and cut 10 times: ${calls} calls\n`);
});
