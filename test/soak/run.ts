/**
 * Runs a whole soak: steady work, faults at intervals, samples in between, and the verdicts at the end.
 *
 * 1. Work ends before the verdicts: every scene is over or counted as lost, temporary keys in Redis have had the time to expire,
 *    and the workers have stopped.
 * 2. All its processes and files are gone when it resolves or rejects.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { createOfflineModel } from "../../src/offline/server.ts";
import { keysUnder } from "../../src/shared/protocol/keys.ts";
import type { Timing } from "../../src/shared/protocol/limits.ts";
import { WORKER_TTL_MS } from "../../src/shared/protocol/worker.ts";
import { closeRedis, openRedis, type RedisClient } from "../../src/shared/redis/connection/connection.ts";
import { FSYNC_NEVER, type RedisServer, startRedisServer } from "../helpers/redis-server.ts";
import { seeded } from "../helpers/seeded.ts";
import { until } from "../helpers/until.ts";
import { leftovers, takeCensus, total } from "./census.ts";
import { createFaults, type Strike } from "./faults.ts";
import { type Fleet, startFleet } from "./fleet.ts";
import type { Verdict } from "./judge.ts";
import { judgeProcesses, MB, type Row, rowOf } from "./rows.ts";

/** Options of a soak. */
export interface SoakOptions {
  durationMs: number;
  faultEveryMs: number;
  /** Minimum number of faults: the work continues until they have struck. */
  leastStrikes: number;
  sampleEveryMs: number;
  seed: number;
  /** Number of workers besides the steady one. */
  mortals: number;
  /** Average pause (ms) between two scenes of a loop; there are 16 loops. */
  paceMs: number;
  /** TTL (ms) of keys that production keeps for a day, so that they have expired at the end. */
  retentionMs: number;
  timing: Timing;
  /** If more than 0, one more worker runs, which leaks this much memory. */
  leakBytesPerS: number;
  /** Called with each new row. */
  onRow(row: Row): void;
  /** Called with a readable sentence at each phase. */
  onNews(sentence: string): void;
}

/** The result of a soak. */
export interface SoakReport {
  rows: readonly Row[];
  strikes: readonly Strike[];
  /** Times of the faults, hours since the beginning. */
  marks: readonly number[];
  account: Account;
  verdicts: readonly Verdict[];
}

const Account = z.object({
  scenes: z.number(),
  runs: z.number(),
  destroyed: z.number(),
  idled: z.number(),
  refused: z.number(),
  repeated: z.number(),
  entries: z.number(),
  wrong: z.array(z.string()),
});
type Account = z.infer<typeof Account>;

const HOUR_MS = 3_600_000;
const PREFIX = "soak";
const PARENTS = 4;
const WARM_UP = 0.25;
/** Share of the faults (0–1) that must strike while runs are in progress. */
const AIMED = 0.5;
/** Time (ms) for the end of the parents, which wait up to two minutes for their last scenes. */
const PARENTS_END_WITHIN_MS = 150_000;
/** Idle time (ms) of the parents' agents, longer than any pause between two calls even on an overloaded machine. */
const IDLE_MS = 60_000;
const SLACK_MS = 15_000;

const note = (line: string) => ({ type: "tool_use" as const, name: "note", input: { line, ms: 100 } });
const noted = { content: [{ type: "text" as const, text: "All noted." }] };
const scenario = [
  { match: { user: "take your time" }, turns: [{ content: [note("slow")] }, { ...noted, latencyMs: 1_000 }] },
  {
    turns: [{ content: [note("{{turn}}"), note("too")] }, { content: [note("{{turn}}")] }, noted],
    repeat: true,
  },
];

/** Runs a soak. */
export async function runSoak(options: SoakOptions): Promise<SoakReport> {
  const workspaceRoot = await mkdtemp(join(tmpdir(), "soak-"));
  const offline = createOfflineModel({ scenario, latencyMs: 150 });
  await offline.start();
  const server = await startRedisServer(FSYNC_NEVER);
  const redis = openRedis(server.url, "worker");
  let fleet: Fleet | undefined;
  try {
    const timing = {
      ...options.timing,
      requestTtlMs: options.retentionMs,
      keptAfterAckMs: options.retentionMs,
    };
    const common = { redisUrl: server.url, prefix: PREFIX, timing, sampleEveryMs: options.sampleEveryMs };
    const forWorkers = { modelUrl: offline.url, workspaceRoot, concurrency: 10, leakBytesPerS: 0 };
    fleet = await startFleet({
      worker: { ...common, ...forWorkers },
      parents: { ...common, seed: options.seed, paceMs: options.paceMs, idleMs: IDLE_MS },
      mortals: options.mortals,
      leakBytesPerS: options.leakBytesPerS,
    });
    return await soak(options, { fleet, server, redis });
  } finally {
    await fleet?.stop();
    closeRedis(redis);
    await server.stop();
    await offline.stop();
    await rm(workspaceRoot, { recursive: true, force: true });
  }
}

interface Parts {
  fleet: Fleet;
  server: RedisServer;
  redis: RedisClient;
}

async function soak(options: SoakOptions, parts: Parts): Promise<SoakReport> {
  const { fleet, redis } = parts;
  const startedMs = Date.now();
  const hoursAt = (ms: number) => (ms - startedMs) / HOUR_MS;
  const over = new AbortController();
  const rows: Row[] = [];
  const strikes: Strike[] = [];
  const pause = (ms: number) => sleep(ms, undefined, { signal: over.signal }).catch(() => {});

  const harm = async () => {
    const chance = seeded(options.seed);
    const faults = createFaults({ ...parts, chance, leaseMs: options.timing.leaseMs });
    for (;;) {
      await pause(options.faultEveryMs);
      if (over.signal.aborted) return;
      strikes.push(await faults.strike());
    }
  };
  const look = async () => {
    while (!over.signal.aborted) {
      await pause(options.sampleEveryMs);
      const row = await takeRow(parts, hoursAt(Date.now()), strikes.length);
      rows.push(row);
      options.onRow(row);
    }
  };
  const working = Promise.all([harm(), look()]);
  const enough = async () => {
    await sleep(options.durationMs);
    while (strikes.length < options.leastStrikes) await sleep(options.sampleEveryMs);
  };
  await Promise.race([enough(), working]);
  over.abort();
  await working;
  options.onNews("the work ends: last scenes");
  const account = await endOfParents(fleet);
  options.onNews("waiting for what Redis keeps for a while");
  const remembered = strikes.filter(({ fault, at }) => fault === "kill" && at > Date.now() - WORKER_TTL_MS);
  const announced = fleet.workers.length + remembered.length;
  const keys = await judgeKeys(redis, announced, options.retentionMs);
  options.onNews("the workers stop");
  const exits = await Promise.all(fleet.workers.map((worker) => worker.process.kill("SIGTERM")));
  const verdicts = [
    ...judgeProcesses(rows, hoursAt(startedMs + WARM_UP * options.durationMs)),
    keys,
    judgeAccount(account),
    judgeStrikes(strikes),
    judgeExits(exits.map(({ code }) => code)),
  ];
  return { rows, strikes, marks: strikes.map(({ at }) => hoursAt(at)), account, verdicts };
}

async function takeRow({ fleet, redis }: Parts, hours: number, strikes: number): Promise<Row> {
  const watched = [fleet.steady, fleet.parents, ...(fleet.leaking ? [fleet.leaking] : [])];
  const processes = new Map(
    watched.flatMap((one) => {
      const row = rowOf(one);
      return row ? [[one.name, row] as const] : [];
    }),
  );
  const row: Row = { hours, processes, idleLagMs: fleet.idle.newest?.lagP99Ms ?? 0, strikes };
  if (redis.status !== "ready") return row;
  const [census, memory] = await Promise.all([takeCensus(redis), redis.info("memory")]);
  const usedBytes = Number(/used_memory:(\d+)/.exec(memory)?.[1] ?? 0);
  return { ...row, keys: total(census), redisMb: usedBytes / MB };
}

async function endOfParents({ parents }: Fleet): Promise<Account> {
  process.kill(parents.process.pid, "SIGTERM");
  const line = await parents.process.waitForLine(/^account /, { timeoutMs: PARENTS_END_WITHIN_MS });
  await parents.process.closed;
  return Account.parse(JSON.parse(line.slice("account ".length)));
}

async function judgeKeys(redis: RedisClient, workers: number, retentionMs: number): Promise<Verdict> {
  const what = "Redis keys";
  const { bullPrefix, wakeQueue, deadlines } = keysUnder(PREFIX);
  const queue = `${bullPrefix}:${wakeQueue}`;
  const look = async () => {
    const jobs = (await redis.zcard(`${queue}:completed`)) + (await redis.zcard(`${queue}:failed`));
    const overdue = await redis.zcount(deadlines, "-inf", Date.now() - SLACK_MS);
    const census = await takeCensus(redis);
    const promises = await countLongLived(redis, "*:request:*", retentionMs);
    const charged = await countLongLived(redis, "*:charged:*", retentionMs);
    const left = leftovers(census, {
      ...{ parents: PARENTS, workers, jobs, looks: overdue === 0 },
      ...{ promises, charged },
    });
    return { left, census, jobs };
  };
  await until(async () => (await look()).left.length === 0, {
    timeoutMs: retentionMs + SLACK_MS,
    everyMs: 500,
  }).catch(() => {});
  const { left, census, jobs } = await look();
  const kept = [...census].map(([kind, count]) => `${kind} ${count}`).join(", ");
  return left.length === 0
    ? { what, verdict: "holds", figure: `all that stays is what must: ${kept} (${jobs} jobs of taken wakes)` }
    : { what, verdict: "fails", figure: left.join(", ") };
}

/** Counts the keys whose TTL is longer than `ms`. */
async function countLongLived(redis: RedisClient, pattern: string, ms: number): Promise<number> {
  const left = await Promise.all((await redis.keys(pattern)).map((key) => redis.pttl(key)));
  return left.filter((each) => each > ms).length;
}

function judgeAccount({ wrong, ...counts }: Account): Verdict {
  const what = "every run and every end told once";
  const done = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
  if (wrong.length > 0)
    return { what, verdict: "fails", figure: `${wrong.length} wrong: ${wrong.slice(0, 10).join("; ")}` };
  const nothing = counts.runs === 0 || counts.destroyed === 0 || counts.refused === 0;
  return { what, verdict: nothing ? "too short to judge" : "holds", figure: done.join(", ") };
}

/** Judges whether enough faults struck while runs were in progress: a soak without faults shows nothing. */
export function judgeStrikes(strikes: readonly Pick<Strike, "hit">[]): Verdict {
  const what = "faults struck where runs were going on";
  const hits = strikes.filter(({ hit }) => hit > 0).length;
  const figure = `${hits} of ${strikes.length}`;
  if (strikes.length === 0) return { what, verdict: "too short to judge", figure };
  return { what, verdict: hits >= AIMED * strikes.length ? "holds" : "fails", figure };
}

function judgeExits(codes: readonly (number | null)[]): Verdict {
  const figure = `exit codes ${codes.join(", ")}`;
  return {
    what: "workers stop in order",
    verdict: codes.every((code) => code === 0) ? "holds" : "fails",
    figure,
  };
}
