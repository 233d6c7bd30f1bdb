/** The CPU of a model call, as a ratio to the naive loop of the same round. */
import { inTurn, median, type Rounds, ratios, span, table } from "./figures.ts";
import type { LoopName } from "./loops.ts";
import type { Bench } from "./measures.ts";
import { FRESH } from "./options.ts";
import { startPostgres } from "./postgres.ts";
import { runLoop, startBullmqProducer, startParents, startWorker } from "./rig.ts";
import { type Measurement, meter, type Size } from "./work.ts";

/** Result of one variant in one round; per model call unless the field's name says otherwise. */
export interface Row {
  cpuMs: number;
  callsPerSecond: number;
  redisUs?: number;
  commands?: number;
  aofBytes?: number;
  producerMsPerTask?: number;
  rssMb: number;
}

/** Pace and form of the scripted model's turns; see `model-server.ts`. */
type Manner = Parameters<Bench["model"]["url"]>[0];

/** What a variant is measured with. */
export interface Setting {
  bench: Bench;
  size: Measurement;
  manner?: Manner;
  postgresUrl?: string | undefined;
}

interface Variant {
  run: (setting: Setting) => Promise<Row>;
  manner?: Manner;
  /** Measured in every first, second or third round: slow ones less often. */
  every: number;
  /** A very slow variant does a quarter of the tasks. */
  quarter?: boolean;
  /** Streaming loop with as many packets. */
  streamed?: string;
  /** Median of the ratio above which `--gate` fails, after {@link FRESH} tasks; to the streaming loop if `of` says so. */
  most?: { ratio: number; of: "naive" | "streamed" };
}

/** Runs a loop as a variant. */
export const loop =
  (name: LoopName) =>
  async ({ bench, size, manner, postgresUrl }: Setting): Promise<Row> => {
    const { cpuMs, wallMs, rssMb } = await runLoop(name, bench.model.url(manner), size, postgresUrl);
    const calls = size.tasks * (size.turns + 1);
    return { cpuMs: cpuMs / calls, callsPerSecond: (calls / wallMs) * 1_000, rssMb };
  };

/** Runs the product as a variant. */
export const product =
  ({ watched }: { watched: boolean }) =>
  async ({ bench: { redis, model }, size, manner }: Setting): Promise<Row> => {
    await redis.admin.flushall();
    const { concurrency, outputBytes } = size;
    const order = { kind: "product", redisUrl: redis.url, concurrency, outputBytes } as const;
    const worker = await startWorker({ ...order, baseUrl: model.url(manner) });
    const parents = await startParents(redis.url, concurrency);
    const watching = new AbortController();
    for (const parent of watched ? parents.parents : []) {
      void (async () => {
        for await (const _ of parent.events({ signal: watching.signal }));
      })();
    }
    const row = await measured({ redis, size }, parents.run, worker);
    watching.abort();
    await parents.stop();
    await worker.stop();
    return row;
  };

async function bullmq({ bench: { redis, model }, size }: Setting): Promise<Row> {
  await redis.admin.flushall();
  const { concurrency, outputBytes } = size;
  const order = { kind: "bullmq", redisUrl: redis.url, concurrency, outputBytes } as const;
  const worker = await startWorker({ ...order, baseUrl: model.url() });
  const producer = await startBullmqProducer(redis.url);
  const row = await measured({ redis, size }, producer.run, worker);
  await producer.stop();
  await worker.stop();
  return row;
}

/** Runs the work twice: to warm up, then to measure. */
async function measured(
  { redis, size }: Pick<Bench, "redis"> & { size: Measurement },
  run: (size: Size) => Promise<number[]>,
  worker: Awaited<ReturnType<typeof startWorker>>,
): Promise<Row> {
  await run({ ...size, tasks: size.warmUp });
  await worker.meter();
  const before = await redis.used();
  const own = meter();
  await run(size);
  const producer = own();
  const { cpuMs, rssMb } = await worker.used();
  const after = await redis.used();
  const calls = size.tasks * (size.turns + 1);
  return {
    cpuMs: cpuMs / calls,
    callsPerSecond: (calls / producer.wallMs) * 1_000,
    redisUs: ((after.cpuMs - before.cpuMs) * 1_000) / calls,
    commands: (after.commands - before.commands) / calls,
    aofBytes: (after.aofBytes - before.aofBytes) / calls,
    producerMsPerTask: producer.cpuMs / size.tasks,
    rssMb,
  };
}

const BASE = "naive loop, SDK `create`";
const STREAM = "naive loop, SDK `stream`";
const TEN = { gapMs: 1 };
const HUNDRED = { gapMs: 1, deltas: 100 };

/** The variants, in the order of the table. `most`: the goal, with a slack for a shared host. */
const VARIANTS: Readonly<Record<string, Variant>> = {
  [BASE]: { run: loop("naive"), every: 1 },
  [STREAM]: { run: loop("naive-stream"), every: 2 },
  [`${STREAM}, ten packets a turn`]: { run: loop("naive-stream"), manner: TEN, every: 2 },
  [`${STREAM}, a hundred packets a turn`]: {
    run: loop("naive-stream"),
    manner: HUNDRED,
    every: 3,
    quarter: true,
  },
  "floor: SDK over `undici.request`": { run: loop("floor"), every: 2 },
  "AI SDK `generateText`": { run: loop("ai-sdk"), every: 2 },
  "BullMQ, no checkpoints": { run: bullmq, every: 2 },
  "DBOS, Postgres": { run: loop("dbos"), every: 3, quarter: true },
  "LangGraph, Postgres": { run: loop("langgraph"), every: 3, quarter: true },
  "**subagent-queue**, unwatched": {
    run: product({ watched: false }),
    every: 1,
    most: { ratio: 0.7, of: "naive" },
  },
  "**subagent-queue**, watched, deltas in one packet": {
    run: product({ watched: true }),
    every: 1,
    streamed: STREAM,
    most: { ratio: 0.8, of: "naive" },
  },
  "**subagent-queue**, watched, ten packets a turn": {
    run: product({ watched: true }),
    manner: TEN,
    every: 2,
    streamed: `${STREAM}, ten packets a turn`,
    most: { ratio: 1.1, of: "naive" },
  },
  "**subagent-queue**, watched, a hundred packets a turn": {
    run: product({ watched: true }),
    manner: HUNDRED,
    every: 3,
    quarter: true,
    streamed: `${STREAM}, a hundred packets a turn`,
    most: { ratio: 0.6, of: "streamed" },
  },
};

/** Rows of each variant by round, in the order of the table. */
type Rows = ReadonlyMap<string, Map<number, Row>>;

const cpuOf = (rows: Rows, name: string): Rounds =>
  new Map([...(rows.get(name) ?? [])].map(([round, { cpuMs }]) => [round, cpuMs]));

const toNaive = (rows: Rows, name: string) => ratios(cpuOf(rows, name), cpuOf(rows, BASE));
const toStreamed = (rows: Rows, name: string) =>
  ratios(cpuOf(rows, name), cpuOf(rows, VARIANTS[name]?.streamed ?? ""));

/** Measures the variants in alternating rounds, once for each number of warm-up tasks. */
export async function ratio(bench: Bench): Promise<string[]> {
  const { only, warm, tasks, turns, concurrency, rounds = 8, gate } = bench.options;
  const wanted = wantedNames(only);
  // Only if a variant needs it, because no other process should run beside a measurement.
  const postgresUrl = wanted.some(onPostgres) ? await startPostgres() : undefined;
  const names = wanted.filter((name) => !onPostgres(name) || postgresUrl);
  const size = { tasks, turns, concurrency, outputBytes: 500 };
  const lines = [
    "## CPU of a model call",
    "",
    `${tasks} tasks of ${turns} tool turns, ${concurrency} side by side, tool results of ${size.outputBytes} bytes; medians (min–max) of ${rounds} alternating rounds (slower variants in every second or third; with Postgres or a hundred packets a quarter of the tasks, and of more than ${FRESH} before them).`,
    "",
    GOALS,
  ];
  for (const warmUp of warm) {
    const rows = await measureRounds({ bench, postgresUrl, size: { ...size, warmUp } }, names, rounds);
    const state = warmUp <= FRESH ? "Fresh" : "Steady";
    const title = `### ${state}: a new process, ${warmUp} tasks before the measurement`;
    lines.push("", title, "", ...ratioTable(rows));
    if (gate && warmUp === FRESH) for (const line of tooDear(rows)) bench.fail(line);
  }
  return lines;
}

const GOALS =
  "*Ratio*: to the naive loop of the same round. *Of stream*: to the naive streaming loop with as many packets. *Redis µs*, *commands* and *AOF bytes*: of the whole task, from its spawn to its ack, divided by its calls. Goals, fresh: 0.65 unwatched, 0.75 watched, 1.0 with ten packets; 0.55 of the streaming loop with a hundred. Steady: a process in which the plain SDK is compiled as well.";

/** Returns the variants whose name contains `only`, with those that they are compared with. */
function wantedNames(only: string): string[] {
  const named = Object.keys(VARIANTS).filter((name) => name.includes(only));
  const wanted = new Set([BASE, ...named, ...named.map((name) => VARIANTS[name]?.streamed ?? BASE)]);
  return Object.keys(VARIANTS).filter((name) => wanted.has(name));
}

const onPostgres = (name: string) => name.endsWith("Postgres");

async function measureRounds(setting: Setting, names: readonly string[], rounds: number): Promise<Rows> {
  const rows = new Map(names.map((name) => [name, new Map<number, Row>()]));
  const { size } = setting;
  const warmUp = Math.max(Math.min(size.warmUp, FRESH), Math.ceil(size.warmUp / 4));
  const quarter = { ...size, warmUp, tasks: Math.ceil(size.tasks / 4) };
  for (let round = 0; round < rounds; round++) {
    for (const name of inTurn(names, round, (each) => VARIANTS[each]?.every ?? 1)) {
      const variant = VARIANTS[name];
      if (!variant) continue;
      const { manner } = variant;
      const row = await variant.run({
        ...setting,
        manner,
        size: variant.quarter ? quarter : size,
      });
      rows.get(name)?.set(round, row);
      process.stderr.write(
        `warm ${size.warmUp}, round ${round + 1}: ${name}: ${row.cpuMs.toFixed(3)} ms a call\n`,
      );
    }
  }
  return rows;
}

/** Returns a line for each variant whose median is above its bound or missing. */
function tooDear(rows: Rows): string[] {
  return Object.entries(VARIANTS).flatMap(([name, { most }]) => {
    if (!most) return [];
    const middle = median((most.of === "naive" ? toNaive : toStreamed)(rows, name));
    if (middle !== undefined && middle <= most.ratio) return [];
    return [`${name}: ${middle?.toFixed(2) ?? "not measured"} (at most ${most.ratio})`];
  });
}

function ratioTable(rows: Rows): string[] {
  const names = [
    "",
    "ratio",
    "of stream",
    "CPU ms a call",
    "calls/s",
    "Redis µs a call",
    "commands",
    "AOF bytes",
    "producer ms a task",
    "RSS MB",
  ];
  const lines = [...rows].map(([name, byRound]) => {
    const column = (of: (row: Row) => number | undefined) => span([...byRound.values()].map(of));
    return [
      name,
      span(toNaive(rows, name)),
      span(toStreamed(rows, name)),
      column((row) => row.cpuMs),
      column((row) => row.callsPerSecond),
      column((row) => row.redisUs),
      column((row) => row.commands),
      column((row) => row.aofBytes),
      column((row) => row.producerMsPerTask),
      column((row) => row.rssMb),
    ];
  });
  return table(names, lines);
}
