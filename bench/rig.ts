/**
 * Starts the processes of a measurement on 127.0.0.1; all of them end with this process, however it ends: its exit kills them,
 * and after a `kill -9` Node processes see their channel close, servers have a guard.
 */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Queue, QueueEvents } from "bullmq";
import { Redis } from "ioredis";
import { createClient, createParent, type Parent, type Reply } from "subagent-queue";
import type { LoopName } from "./loops.ts";
import { type Measurement, MODEL, promptFor, type Size, SYSTEM, sideBySide, type Used } from "./work.ts";
import type { WorkerOrder } from "./workers.ts";

const directory = mkdtempSync(join(tmpdir(), "subagent-bench-"));
/** Log file of the measured processes. */
const logFile = join(directory, "log");
const log = openSync(logFile, "a");
const children = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(1));
// A killed npm tells nobody; this process then has another parent.
const { ppid } = process;
setInterval(() => process.ppid === ppid || process.exit(1), 500).unref();

/** A private Redis with an append-only file, synced every second. */
export interface BenchRedis {
  url: string;
  admin: Redis;
  /** Reads the server's CPU time, commands, size of the append-only file and memory, so far. */
  used(): Promise<{ cpuMs: number; commands: number; aofBytes: number; memoryBytes: number }>;
}

/** Starts a Redis. */
export async function startRedis(): Promise<BenchRedis> {
  const port = await freePort();
  const dir = mkdtempSync(join(directory, "redis-"));
  const durable = ["--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"];
  // No AOF rewrite, because it would make the measured file shorter.
  const growing = ["--auto-aof-rewrite-percentage", "0"];
  const args = [
    "--port",
    `${port}`,
    "--bind",
    "127.0.0.1",
    "--dir",
    dir,
    "--save",
    "",
    ...durable,
    ...growing,
  ];
  guarded(kept(spawn("redis-server", args, { stdio: "ignore" })), directory);
  const admin = new Redis({ port, retryStrategy: () => 50, maxRetriesPerRequest: null });
  admin.on("error", () => {});
  await admin.ping();
  return {
    url: `redis://127.0.0.1:${port}`,
    admin,
    async used() {
      const info = await admin.info();
      const value = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(info)?.[1] ?? 0);
      return {
        cpuMs: (value("used_cpu_sys") + value("used_cpu_user")) * 1_000,
        commands: value("total_commands_processed"),
        aofBytes: value("aof_current_size"),
        memoryBytes: value("used_memory"),
      };
    },
  };
}

/** Statistics of the scripted model since its last reset; times of its last call in epoch ms. */
interface ModelStats {
  calls: number;
  mostInFlight: number;
  cameAtMs: number;
  answeredAtMs: number;
}

/** Starts the scripted model; the options of `url` set its deltas, gaps, latency and tool calls a turn. */
export async function startModel() {
  const child = module("model-server.ts");
  const { port } = await heard<{ port: number }>(child);
  const base = `http://127.0.0.1:${port}`;
  const get = async (path: string) => (await fetch(base + path)).json() as Promise<ModelStats>;
  return {
    url: ({ deltas = 10, gapMs = 0, latencyMs = 0, calls = 1 } = {}) =>
      `${base}/d${deltas}/w${gapMs}/l${latencyMs}/k${calls}`,
    stats: () => get("/stats"),
    reset: () => get("/reset"),
  };
}

/** Runs one of the loops in a fresh process. */
export async function runLoop(
  loop: LoopName,
  baseUrl: string,
  size: Measurement,
  postgresUrl: string | undefined,
): Promise<Used> {
  const child = module("loops.ts");
  await heard(child);
  const used = asked<Used>(child, { loop, baseUrl, size, postgresUrl });
  return used.finally(() => child.kill());
}

/** Starts a worker in its own process. */
export async function startWorker(order: Omit<WorkerOrder, "workspaceRoot">) {
  const child = module("workers.ts");
  await asked(child, { start: { ...order, workspaceRoot: join(directory, "workspaces") } });
  return {
    meter: () => asked(child, "meter"),
    used: () => asked<Used>(child, "used"),
    memory: () => asked<{ rssMb: number; heapMb: number }>(child, "memory"),
    kill: () => child.kill("SIGKILL"),
    async stop() {
      const ended = once(child, "exit");
      child.send("stop");
      await ended;
    },
  };
}

/** Creates parents in this process; each may run ten tasks in parallel. */
export async function startParents(redisUrl: string, concurrency: number) {
  const client = createClient({ redisUrl });
  await client.start();
  const options = { client, model: MODEL, system: SYSTEM, tools: ["lookup"] };
  const parents: Parent[] = Array.from({ length: Math.ceil(concurrency / 10) }, (_, n) =>
    createParent({ ...options, parentId: `p${n}` }),
  );
  const parentOf = (lane: number): Parent =>
    parents[lane % parents.length] ?? createParent({ ...options, parentId: "p" });
  return {
    client,
    parents,
    async run(size: Size): Promise<number[]> {
      return sideBySide(size, async (lane) =>
        succeeded(await parentOf(lane).task({ prompt: promptFor(size.turns) })),
      );
    },
    stop: () => client.stop(),
  };
}

/** Creates the producer for the bare BullMQ worker. */
export async function startBullmqProducer(redisUrl: string) {
  const connection = { host: "127.0.0.1", port: Number(new URL(redisUrl).port) };
  const queue = new Queue("bench", { connection });
  const events = new QueueEvents("bench", { connection });
  await events.waitUntilReady();
  return {
    run: (size: Size) =>
      sideBySide(size, async () => {
        const job = await queue.add("task", { prompt: promptFor(size.turns) });
        await job.waitUntilFinished(events, 60_000);
      }),
    async stop() {
      await events.close();
      await queue.close();
    },
  };
}

/** Throws unless the run succeeded with the expected summary. */
export function succeeded(reply: Reply): void {
  if (reply.status !== "succeeded" || !reply.summary.startsWith("Summary after"))
    throw new RangeError(`${reply.status} ${reply.stop_reason}: ${reply.error ?? reply.summary}`);
}

function module(name: string): ChildProcess {
  const path = join(import.meta.dirname, name);
  return kept(
    fork(path, {
      execArgv: ["--expose-gc", "--import", "tsx"],
      stdio: ["ignore", "ignore", log, "ipc"],
    }),
  );
}

/** Registers a child process, which then ends with this process. */
export function kept(child: ChildProcess): ChildProcess {
  children.add(child);
  child.on("exit", () => children.delete(child));
  return child;
}

/** Kills a server and removes its directory after the end of this process, which closes the guard's standard input. */
export function guarded({ pid }: ChildProcess, dir: string): void {
  const guard = 'cat; kill -9 "$0"; sleep 1; rm -rf "$1"';
  const stdio: ("pipe" | "ignore")[] = ["pipe", "ignore", "ignore"];
  spawn("/bin/sh", ["-c", guard, `${pid}`, dir], { stdio, detached: true }).unref();
}

function heard<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null) =>
      reject(new RangeError(`a process of the benchmark ended with ${code}: ${lastLogged()}`));
    child.once("exit", ended);
    child.once("message", (message) => {
      child.off("exit", ended);
      resolve(message as T);
    });
  });
}

/** Returns the end of what the measured processes have logged. */
function lastLogged(): string {
  return readFileSync(logFile, "utf8").slice(-2_000);
}

function asked<T>(child: ChildProcess, message: object | string): Promise<T> {
  const answer = heard<T>(child);
  child.send(message);
  return answer;
}

/** Returns a free port on 127.0.0.1. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return typeof address === "object" && address ? address.port : 0;
}
