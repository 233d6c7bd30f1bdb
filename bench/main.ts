/**
 * The benchmark: `npm run bench [-- --rounds=5 --tasks=200 --turns=10 --concurrency=10 --parts=ratio,latency --depths=100,100000 --write]`.
 *
 * Measured: CPU of the worker's process per model call as a ratio to the naive loop of the same round (variants alternate, so
 * that a noisy host disturbs all of them alike), the load of Redis, the duration of a task. Not measured: a real provider, TLS,
 * a network, several hosts, and, without Postgres, DBOS and LangGraph. `--parts` (default: all) and `--only` (ratio variants
 * whose name contains this) measure less. `--write` writes `docs/benchmarks.md`. `--gate` fails if a ratio is far above its
 * goal.
 */
import { parseArgs } from "node:util";
import type { LoopName } from "./loops.ts";
import { burst, depth, latency, leftBehind, memory } from "./measures.ts";
import { startPostgres } from "./postgres.ts";
import { writeSection } from "./report.ts";
import { runLoop, startBullmqProducer, startModel, startParents, startRedis, startWorker } from "./rig.ts";
import { meter, type Size, WARM_UP_TASKS } from "./work.ts";

/** Result of one variant in one round; per model call unless the field's name says otherwise. */
interface Row {
  cpuMs: number;
  callsPerSecond: number;
  redisUs?: number;
  commands?: number;
  aofBytes?: number;
  producerMsPerTask?: number;
  rssMb: number;
}

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    tasks: { type: "string", default: "400" },
    turns: { type: "string", default: "10" },
    concurrency: { type: "string", default: "10" },
    only: { type: "string", default: "" },
    parts: { type: "string", default: "" },
    depths: { type: "string", default: "100,30000" },
    gate: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
  },
});
const whole: Size = {
  tasks: Number(values.tasks),
  turns: Number(values.turns),
  concurrency: Number(values.concurrency),
  outputBytes: 500,
};
/** Size for much slower loops: a quarter of the tasks. */
const quarter: Size = { ...whole, tasks: Math.ceil(whole.tasks / 4) };
const PARTS = { ratio, latency, burst, depth, memory, leftBehind };
const asked = values.parts === "" ? Object.keys(PARTS) : values.parts.split(",");
const unknown = asked.find((part) => !Object.hasOwn(PARTS, part));
if (unknown !== undefined) {
  process.stderr.write(`No part is called ${unknown}: ${Object.keys(PARTS).join(", ")}\n`);
  process.exit(2);
}
const isAsked = (part: string) => asked.includes(part);
const redis = await startRedis();
const model = await startModel();
const PEERS_ON_POSTGRES = { "DBOS, Postgres": "dbos", "LangGraph, Postgres": "langgraph" } as const;
const needsPostgres =
  isAsked("ratio") && Object.keys(PEERS_ON_POSTGRES).some((name) => name.includes(values.only));
/** Started only if a variant needs it, because no other process should run beside a measurement. */
const postgresUrl = needsPostgres ? await startPostgres() : undefined;

const loop =
  (name: LoopName, manner = {}, size = whole) =>
  async (): Promise<Row> => {
    const { cpuMs, wallMs, rssMb } = await runLoop(name, model.url(manner), size, postgresUrl);
    const calls = size.tasks * (size.turns + 1);
    return { cpuMs: cpuMs / calls, callsPerSecond: (calls / wallMs) * 1_000, rssMb };
  };

const product =
  ({ watched = false, manner = {} }) =>
  async (): Promise<Row> => {
    await redis.admin.flushall();
    const { concurrency, outputBytes } = whole;
    const order = { kind: "product", redisUrl: redis.url, concurrency, outputBytes } as const;
    const worker = await startWorker({ ...order, baseUrl: model.url(manner) });
    const parents = await startParents(redis.url, concurrency);
    const watching = new AbortController();
    for (const parent of watched ? parents.parents : []) {
      void (async () => {
        for await (const _ of parent.events({ signal: watching.signal }));
      })();
    }
    const row = await measured(parents.run, worker);
    watching.abort();
    await parents.stop();
    await worker.stop();
    return row;
  };

async function bullmq(): Promise<Row> {
  await redis.admin.flushall();
  const { concurrency, outputBytes } = whole;
  const order = {
    kind: "bullmq",
    redisUrl: redis.url,
    baseUrl: model.url(),
    concurrency,
    outputBytes,
  } as const;
  const worker = await startWorker(order);
  const producer = await startBullmqProducer(redis.url);
  const row = await measured(producer.run, worker);
  await producer.stop();
  await worker.stop();
  return row;
}

/** Runs the work twice: to warm up, then to measure. */
async function measured(
  run: (size: Size) => Promise<number[]>,
  worker: Awaited<ReturnType<typeof startWorker>>,
): Promise<Row> {
  await run({ ...whole, tasks: WARM_UP_TASKS });
  await worker.meter();
  const before = await redis.used();
  const own = meter();
  await run(whole);
  const producer = own();
  const { cpuMs, rssMb } = await worker.used();
  const after = await redis.used();
  const calls = whole.tasks * (whole.turns + 1);
  return {
    cpuMs: cpuMs / calls,
    callsPerSecond: (calls / producer.wallMs) * 1_000,
    redisUs: ((after.cpuMs - before.cpuMs) * 1_000) / calls,
    commands: (after.commands - before.commands) / calls,
    aofBytes: (after.aofBytes - before.aofBytes) / calls,
    producerMsPerTask: producer.cpuMs / whole.tasks,
    rssMb,
  };
}

const VARIANTS: Readonly<Record<string, () => Promise<Row>>> = {
  "naive loop, SDK `create`": loop("naive"),
  "naive loop, SDK `stream`": loop("naive-stream"),
  "floor: SDK over `undici.request`": loop("floor"),
  "AI SDK `generateText`": loop("ai-sdk"),
  "BullMQ, no checkpoints": bullmq,
  ...(postgresUrl &&
    Object.fromEntries(
      Object.entries(PEERS_ON_POSTGRES).map(([name, peer]) => [name, loop(peer, {}, quarter)]),
    )),
  "**subagent-queue**, unwatched": product({}),
  "**subagent-queue**, watched, deltas in one packet": product({ watched: true }),
  "**subagent-queue**, watched, ten packets a turn": product({ watched: true, manner: { gapMs: 1 } }),
  "naive loop, SDK `stream`, ten packets a turn": loop("naive-stream", { gapMs: 1 }),
};

const [BASE = ""] = Object.keys(VARIANTS);
const wanted = Object.keys(VARIANTS).filter((name) => name === BASE || name.includes(values.only));
const rows = new Map<string, Row[]>(wanted.map((name) => [name, []]));

async function ratio(): Promise<string[]> {
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const name of round % 2 === 0 ? wanted : wanted.toReversed()) {
      const row = await VARIANTS[name]?.();
      if (row) rows.get(name)?.push(row);
      process.stderr.write(`round ${round + 1}: ${name}: ${row?.cpuMs.toFixed(3)} ms a call\n`);
    }
  }
  return ratioTable();
}

/** Medians above which `--gate` fails: the goals (0.65, 0.75, 1.0) with a margin for a shared host. */
const MOST: Readonly<Record<string, number>> = {
  "**subagent-queue**, unwatched": 0.8,
  "**subagent-queue**, watched, deltas in one packet": 0.95,
  "**subagent-queue**, watched, ten packets a turn": 1.6,
};

/** Returns a line for each variant whose median is above its bound or missing. */
function tooDear(): string[] {
  return Object.entries(MOST).flatMap(([name, most]) => {
    const ratios = ratiosOf(rows.get(name) ?? []).sort((a, b) => a - b);
    const median = ratios[ratios.length >> 1];
    return median !== undefined && median <= most ? [] : [`${name}: ${median?.toFixed(2)} (at most ${most})`];
  });
}

for (const [name, measure] of Object.entries(PARTS)) {
  if (!isAsked(name)) continue;
  const section = await measure({ redis, model, depths: values.depths.split(",").map(Number) });
  process.stdout.write(`${section.join("\n")}\n\n`);
  // Each section is written at once, so that a failure of the next part does not lose it.
  if (values.write) writeSection(section);
}
const broken = values.gate ? tooDear() : [];
for (const each of broken) process.stderr.write(`too dear: ${each}\n`);
process.exit(broken.length > 0 ? 1 : 0);

/** Returns the CPU of each round as a ratio to the naive loop in the same round. */
function ratiosOf(measuredRows: readonly Row[]): number[] {
  const base = rows.get(BASE) ?? [];
  return measuredRows.map(({ cpuMs }, round) => cpuMs / (base[round]?.cpuMs ?? Number.NaN));
}

function ratioTable(): string[] {
  const head = `${whole.tasks} tasks of ${whole.turns} tool turns, ${whole.concurrency} side by side, tool results of ${whole.outputBytes} bytes; medians (min–max) of ${values.rounds} alternating rounds.`;
  const names = [
    "",
    "ratio",
    "CPU ms a call",
    "calls/s",
    "Redis µs a call",
    "commands",
    "AOF bytes",
    "producer ms a task",
    "RSS MB",
  ];
  const lines = [...rows].map(([name, measuredRows]) => {
    const column = (of: (row: Row) => number | undefined) => span(measuredRows.map(of));
    const ratios = span(ratiosOf(measuredRows));
    const redisColumns = [column((r) => r.redisUs), column((r) => r.commands), column((r) => r.aofBytes)];
    return [
      name,
      ratios,
      column((r) => r.cpuMs),
      column((r) => r.callsPerSecond),
      ...redisColumns,
      column((r) => r.producerMsPerTask),
      column((r) => r.rssMb),
    ];
  });
  return [
    "## CPU of a model call",
    "",
    head,
    "",
    ...[names, names.map(() => "---"), ...lines].map((cells) => `| ${cells.join(" | ")} |`),
  ];
}

/** Returns the median, with minimum and maximum if there are several values. */
function span(found: readonly (number | undefined)[]): string {
  const sorted = found.filter((value) => value !== undefined).sort((a, b) => a - b);
  const middle = sorted[sorted.length >> 1];
  if (middle === undefined) return "–";
  const [least = middle, most = middle] = [sorted[0], sorted.at(-1)];
  return sorted.length === 1 ? short(middle) : `${short(middle)} (${short(least)}–${short(most)})`;
}

function short(value: number): string {
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
