/** The measurements beside the ratio: latencies, bursts, a backlog, memory, and leftover memory in Redis. */
import { type Client, createClient, createParent } from "subagent-queue";
import type { Options } from "./options.ts";
import { type BenchRedis, runLoop, type startModel, startParents, startWorker, succeeded } from "./rig.ts";
import { MODEL, promptFor, sideBySide } from "./work.ts";

/** Redis, the model and the options of a measurement. */
export interface Bench {
  redis: BenchRedis;
  model: Awaited<ReturnType<typeof startModel>>;
  options: Options;
  /** Makes the benchmark fail in its end; the line says why. */
  fail: (line: string) => void;
}

const OUTPUT_BYTES = 500;
/** Number of tasks before latencies are measured. */
const WARM_UP_TASKS = 800;

type Rig = Pick<Bench, "redis" | "model">;

/** Measures a task of one call on an idle system: time to the call, time from answer to reply, total. */
export async function latency({ redis, model }: Rig): Promise<string[]> {
  const { worker, parents } = await fresh({ redis, model }, 10);
  const [parent] = parents.parents;
  if (!parent) return [];
  await parents.run({ tasks: WARM_UP_TASKS, turns: 0, concurrency: 1, outputBytes: OUTPUT_BYTES });
  const [toCallMs, toReplyMs, wholeMs]: [number[], number[], number[]] = [[], [], []];
  for (let n = 0; n < 400; n++) {
    const startedAtMs = nowMs();
    succeeded(await parent.task({ prompt: promptFor(0) }));
    const endedAtMs = nowMs();
    const { cameAtMs, answeredAtMs } = await model.stats();
    toCallMs.push(cameAtMs - startedAtMs);
    toReplyMs.push(endedAtMs - answeredAtMs);
    wholeMs.push(endedAtMs - startedAtMs);
  }
  const spawnMs = await sideBySide({ tasks: 200, concurrency: 1 }, async () => {
    const agent = await parent.spawn({ name: "latency" });
    await parent.destroy(agent.agent_id);
  });
  await parents.stop();
  await worker.stop();
  return [
    "## Latency, idle",
    "",
    "| a task of one model call | |",
    "| --- | --- |",
    `| \`task()\` → the call at the model | ${quantiles(toCallMs)} |`,
    `| the answer is written → \`task()\` resolves | ${quantiles(toReplyMs)} |`,
    `| the whole task | ${quantiles(wholeMs)} |`,
    `| spawn and destroy | ${quantiles(spawnMs)} |`,
  ];
}

/** Returns this host's time (epoch ms) with fractions of a millisecond. */
function nowMs(): number {
  return performance.timeOrigin + performance.now();
}

/** Measures many simultaneous spawns from one process. */
export async function burst({ redis, fail }: Pick<Bench, "redis" | "fail">): Promise<string[]> {
  await redis.admin.flushall();
  const lines: string[] = [];
  for (const count of [100, 1_000, 10_000]) {
    const client = createClient({ redisUrl: redis.url });
    const startedMs = performance.now();
    const spawned = Array.from({ length: count }, (_, n) =>
      createParent({ client, model: MODEL, parentId: `burst-${count}-${n >> 3}` }).spawn({ name: "burst" }),
    );
    const settled = await Promise.allSettled(spawned);
    const failed = settled.filter(({ status }) => status === "rejected").length;
    if (failed > 0) fail(`${failed} of ${count} spawns at once failed`);
    lines.push(`| ${count} | ${failed} | ${((performance.now() - startedMs) / count).toFixed(3)} |`);
    await client.stop();
  }
  const head = ["## Bursts", "", "| spawns at once | failed | ms each |", "| --- | --- | --- |"];
  return [...head, ...lines, "", "One process spawns them for parents of eight agents each. None may fail."];
}

/**
 * Measures a backlog of queued agents: the rates of adding the first and the last of them, Redis' load for the sweepers'
 * checks, the latency of other commands meanwhile, and the rate of working them off.
 */
export async function depth({ redis, model, options }: Omit<Bench, "fail">): Promise<string[]> {
  const lines: string[] = [];
  for (const agents of options.depths) {
    await redis.admin.flushall();
    const client = createClient({ redisUrl: redis.url });
    await client.start();
    await client.pause("benchmark");
    const rates = await addQueued(client, agents);
    const order = { kind: "product", redisUrl: redis.url, baseUrl: model.url() } as const;
    const worker = await startWorker({ ...order, concurrency: 50, outputBytes: OUTPUT_BYTES });
    const catchingUp = await shareOfRedis(redis, LOOKED_AT_MS);
    await sleep(CAUGHT_UP_MS);
    const share = await shareOfRedis(redis, STEADY_MS);
    const pings = await repeatedly(LOOKED_AT_MS, () => redis.admin.ping());
    const spawner = createParent({ client, model: MODEL, parentId: "beside" });
    const spawns = await repeatedly(LOOKED_AT_MS / 3, async () => {
      const { agent_id } = await spawner.spawn({ name: "beside" });
      await spawner.destroy(agent_id);
    });
    const drained = await drainedPerSecond(redis, client, agents);
    await client.stop();
    worker.kill();
    const cells = [
      agents,
      ...rates,
      catchingUp.toFixed(1),
      share.toFixed(1),
      quantiles(pings),
      quantiles(spawns),
      drained.join(", "),
    ];
    lines.push(`| ${cells.join(" | ")} |`);
  }
  return [
    "## A backlog",
    "",
    "| queued agents | added a second, first tenth | last tenth | Redis, % of a core for looking after them: the first 15 s | two minutes later on | PING | spawn and destroy beside them | worked off a second, by thirds of 15 s |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ...lines,
    "",
    CATCHING_UP,
  ];
}

const LOOKED_AT_MS = 15_000;
/** Time within which a sweeper checks all agents once; it checks them again within the next minute. */
const CAUGHT_UP_MS = 60_000;
const STEADY_MS = 120_000;
const CATCHING_UP =
  "The worker starts when all are queued: no sweeper has checked them before, so its own catches up in the first seconds.";

/** Measures Redis' CPU for `ms`; resolves to percent of a core. */
async function shareOfRedis(redis: BenchRedis, ms: number): Promise<number> {
  const before = await redis.used();
  await sleep(ms);
  const after = await redis.used();
  return ((after.cpuMs - before.cpuMs) / ms) * 100;
}

/** Queues the agents, ten a parent; resolves to the agents per second in the first and the last tenth. */
async function addQueued(client: Client, agents: number): Promise<[first: string, last: string]> {
  const tenth = Math.max(1, Math.floor(agents / 10));
  const rates: string[] = [];
  for (let from = 0; from < agents; from += tenth) {
    const startedMs = performance.now();
    let n = from;
    await sideBySide({ tasks: tenth, concurrency: 100 }, async () => {
      const parent = createParent({ client, model: MODEL, parentId: `d${Math.floor(n++ / 10)}` });
      const agent = await parent.spawn({ name: "deep" });
      await parent.send(agent.agent_id, promptFor(0));
    });
    rates.push(((tenth / (performance.now() - startedMs)) * 1_000).toFixed(0));
  }
  return [rates[0] ?? "", rates.at(-1) ?? ""];
}

/** Ends the pause; resolves to the agents per second that leave the queue, in each third of the time. */
async function drainedPerSecond(redis: BenchRedis, client: Client, agents: number): Promise<string[]> {
  await client.resume();
  const rates: string[] = [];
  let before = agents;
  for (let third = 0; third < 3; third++) {
    const startedMs = performance.now();
    await sleep(LOOKED_AT_MS / 3);
    const left = await redis.admin.zcard("{saq}:wakes:prioritized");
    rates.push((((before - left) / (performance.now() - startedMs)) * 1_000).toFixed(0));
    before = left;
  }
  return rates;
}

/** Repeats `work` for `forMs`; resolves to the duration of each, ms. */
async function repeatedly(forMs: number, work: () => Promise<unknown>): Promise<number[]> {
  const untilMs = performance.now() + forMs;
  const tookMs: number[] = [];
  while (performance.now() < untilMs) {
    const startedMs = performance.now();
    await work();
    tookMs.push(performance.now() - startedMs);
    await sleep(20);
  }
  return tookMs;
}

/** Number of simultaneous runs, model latency (ms), and the calls of each run for warm-up and measurement. */
const IN_FLIGHT = [
  { runs: 500, latencyMs: 1_000, warmUp: 8, measured: 12 },
  { runs: 1_000, latencyMs: 1_000, warmUp: 8, measured: 12 },
  { runs: 5_000, latencyMs: 10_000, warmUp: 2, measured: 2 },
];

const RSS_SAYS_LITTLE =
  "RSS also grows and shrinks with what the process had set aside before: of few runs it says nothing.";

/**
 * Measures runs in flight: the worker's memory for each, and how close the call rate is to one call per latency and run, beside
 * the naive loop in the same round.
 */
export async function memory({ redis, model }: Rig): Promise<string[]> {
  const lines: string[] = [];
  for (const shape of IN_FLIGHT) {
    const { runs, latencyMs, warmUp, measured } = shape;
    const size = { tasks: runs, turns: warmUp + measured - 1, concurrency: runs, outputBytes: OUTPUT_BYTES };
    const { worker, parents } = await fresh({ redis, model }, runs, latencyMs);
    const idle = await worker.memory();
    let busy = idle;
    const { mostInFlight, share } = await rate(model, shape, {
      work: () => parents.run(size),
      async whenAllHaveCalled() {
        busy = await worker.memory();
      },
    });
    await parents.stop();
    await worker.stop();
    const naive = await rate(model, shape, {
      work: () => runLoop("naive", model.url({ latencyMs }), { ...size, warmUp: 0 }, undefined),
    });
    const kib = (of: "rssMb" | "heapMb") => (((busy[of] - idle[of]) * 1_024) / runs).toFixed(1);
    lines.push(
      `| ${runs} | ${latencyMs} | ${mostInFlight} | ${percent(share)} | ${percent(naive.share)} | ${kib("heapMb")} | ${kib("rssMb")} |`,
    );
  }
  const head =
    "| runs | model latency, ms | most calls in flight | of one call a latency and run | naive loop, SDK `create` | KiB of heap a run | KiB of RSS a run |";
  const table = [head, "| --- | --- | --- | --- | --- | --- | --- |", ...lines];
  return ["## Runs in flight", "", ...table, "", RSS_SAYS_LITTLE];
}

interface RatedWork {
  /** Begins all runs. */
  work: () => Promise<unknown>;
  /** Called when each run has made its first call. */
  whenAllHaveCalled?: () => Promise<void>;
}

/** Measures the rate of the calls after the first `warmUp` of each run, as a share of one call per latency and run. */
async function rate(
  model: Rig["model"],
  { runs, latencyMs, warmUp, measured }: (typeof IN_FLIGHT)[number],
  { work, whenAllHaveCalled = async () => {} }: RatedWork,
): Promise<{ share: number; mostInFlight: number }> {
  await model.reset();
  const working = work();
  const everyRunHasMade = async (calls: number) => {
    while ((await model.stats()).calls < runs * calls) await sleep(50);
  };
  await everyRunHasMade(1);
  await whenAllHaveCalled();
  await everyRunHasMade(warmUp);
  const startedMs = performance.now();
  await everyRunHasMade(warmUp + measured);
  const share = (measured * latencyMs) / (performance.now() - startedMs);
  const { mostInFlight } = await model.stats();
  await working;
  return { share, mostInFlight };
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

/** Measures the memory that Redis keeps of a task after the ack of its reply. */
export async function leftBehind({ redis, model }: Rig): Promise<string[]> {
  const { worker, parents } = await fresh({ redis, model }, 10);
  const size = { turns: 2, concurrency: 10, outputBytes: OUTPUT_BYTES };
  // A sweeper removes an ended agent from the deadline set at its next check.
  const looked = async () => {
    while ((await redis.admin.zcard("{saq}:deadlines")) > 0) await sleep(500);
  };
  await parents.run({ ...size, tasks: 200 });
  await looked();
  const before = await redis.used();
  await parents.run({ ...size, tasks: 1_000 });
  await looked();
  const after = await redis.used();
  await parents.stop();
  await worker.stop();
  const bytes = (after.memoryBytes - before.memoryBytes) / 1_000;
  return ["## Left behind", "", `${bytes.toFixed(0)} bytes of memory of the server a task, after its ack.`];
}

async function fresh({ redis, model }: Rig, concurrency: number, latencyMs = 0) {
  await redis.admin.flushall();
  const order = { kind: "product", redisUrl: redis.url, baseUrl: model.url({ latencyMs }) } as const;
  const worker = await startWorker({ ...order, concurrency, outputBytes: OUTPUT_BYTES });
  const parents = await startParents(redis.url, concurrency);
  const [parent] = parents.parents;
  if (parent) succeeded(await parent.task({ prompt: promptFor(0) }));
  return { worker, parents };
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function quantiles(tookMs: readonly number[]): string {
  const sorted = tookMs.toSorted((a, b) => a - b);
  const at = (share: number) => (sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN).toFixed(2);
  return `p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, p99 ${at(0.99)} ms`;
}
