/**
 * Performs one batch of the crash-point matrix. One process has a worker per point, each behind a line that goes dead at its
 * point. When all lines are dead, the process is killed, and one worker in this process finishes every run.
 */
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Scenario } from "../../src/offline/server.ts";
import { deadlineMember } from "../../src/shared/protocol/keys.ts";
import { TIMING, type Timing } from "../../src/shared/protocol/limits.ts";
import { EntryKey } from "../../src/shared/protocol/log.ts";
import { luaSource } from "../../src/shared/redis/scripts.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { openCrashLine } from "../helpers/crash-line.ts";
import { noteAndLook } from "../helpers/fixtures/journaling-tools.ts";
import { type NodeProcess, spawnNode } from "../helpers/processes.ts";
import { startProxy, type Proxy as TcpProxy } from "../helpers/proxy.ts";
import { until } from "../helpers/until.ts";
import { type Agent, openStage, type Stage } from "../stage/stage.ts";
import { type Aftermath, COMMITS, type Commit, type CrashPoint } from "./crash-points.ts";
import { countOf } from "./evidence.ts";
import { namedCalls } from "./oracle-turns.ts";

/** Timing with leases so long that none expires even on a slow machine; `letLeasesRunOut` expires them. */
const PATIENT_LEASES: Timing = {
  ...TIMING,
  leaseMs: 600_000,
  renewMs: 200_000,
  leaseMarginMs: 60_000,
  checkMs: 600_000,
  longestCheckMs: 600_000,
};
const STARTS_WITHIN_MS = 120_000;
/** Timeout (ms) of a reply: BullMQ requeues the job of a dead worker only after its lock and a check for stalled jobs. */
const REPLIES_WITHIN_MS = 120_000;
const TURN_ENTRIES = [1, 3, 5];

/** A crash point with the commits and the aftermath of its agent. */
export interface CrashResult {
  point: CrashPoint;
  commits: Commit[];
  aftermath: Aftermath;
}

/** An agent that has not yet reached its crash point. */
interface Crashing {
  agent: Agent;
  point: CrashPoint;
  commits: Commit[];
  /** The line of the worker that claimed it. */
  line?: symbol;
}

/** Resolves when `isDone` returns true; `what`: the description of that for the error message. */
type Wait = (isDone: () => boolean, what: string) => Promise<void>;

/** Crashes at each of `points`, which belong to one batch, and finishes the runs. */
export async function crashAt(
  redis: { url: string; port: number },
  points: readonly CrashPoint[],
): Promise<CrashResult[]> {
  const installation = await openStage({
    redis: { url: redis.url },
    timing: PATIENT_LEASES,
    scenario: scenarioFor(points),
  });
  const crashing = new Map<string, Crashing>();
  const lines = await Promise.all(points.map(() => openLine(redis.port, crashing)));
  const { redis: direct } = installation;
  const stalledCheck = `${queueOf(installation)}:stalled-check`;
  // Until the crash no worker may treat a job as stalled, however long the slowest worker needs.
  await direct.set(stalledCheck, 1);
  const modelLine = await startProxy(Number(new URL(installation.offline.url).port));
  const doomed = await startDoomed(
    installation,
    lines.map((line) => line.url),
    `http://127.0.0.1:${modelLine.port}`,
  );
  const isDraining = points[0]?.plot === "drains";
  if (isDraining) modelLine.pause();
  for (const [i, point] of points.entries()) {
    const agent = await installation.spawn({ keep_alive: true });
    crashing.set(agent.uid, { agent, point, commits: [] });
    await installation.send(agent, `Go to point ${i}.`);
  }
  const untilAll: Wait = (isDone, what) => untilHandedOut(installation, crashing, isDone, what);
  if (isDraining) await drain(modelLine, doomed, points.length, untilAll);
  let reached = 0;
  for (const line of lines) void line.dead.then(() => (reached += 1));
  await untilAll(() => reached === points.length, "every worker to reach its point");
  await doomed.kill();
  await direct.del(stalledCheck);
  await letLeasesRunOut(installation, [...crashing.values()]);

  const elsewhere = await mkdtemp(join(tmpdir(), "elsewhere-"));
  closeAtEnd(() => rm(elsewhere, { recursive: true, force: true }));
  const roots = [installation.workspaceRoot, elsewhere];
  const host = points[0]?.host === "other" ? elsewhere : installation.workspaceRoot;
  await installation.startWorker({ workspaceRoot: host, tools: noteAndLook(), concurrency: points.length });
  // One after the other, because each wait polls Redis.
  const replied = async (n: number) => {
    for (const { agent } of crashing.values()) await installation.reply(agent, n, REPLIES_WITHIN_MS);
  };
  await replied(1);
  for (const { agent } of crashing.values()) await installation.send(agent, "Go on.");
  await replied(2);
  const looking = [...crashing.values()].map(async ({ agent, point, commits }) => {
    return { point, commits, aftermath: await lookAt(installation, agent, point, roots) };
  });
  return Promise.all(looking);
}

/** Returns the same script for every point: a turn with tool calls, a report, and an answer to the follow-up. */
function scenarioFor(points: readonly CrashPoint[]): Scenario {
  return points.map(({ tools, idempotent }, i) => ({
    match: { user: `Go to point ${i}.` },
    turns: [
      {
        content: Array.from({ length: tools }, (_, call) => ({
          type: "tool_use" as const,
          name: idempotent ? "look" : "note",
          input: { line: `call ${call}` },
        })),
      },
      { content: [{ type: "text" as const, text: "Done." }] },
      { content: [{ type: "text" as const, text: "Gone on." }] },
    ],
  }));
}

/** The commit of a script, by source and by digest: a connection sends the source the first time and then only the digest. */
const COMMIT_BY_SCRIPT: ReadonlyMap<string, Commit> = new Map(
  COMMITS.flatMap((commit) => {
    const source = luaSource(commit);
    const sha = createHash("sha1").update(source).digest("hex");
    return [[source, commit] as const, [sha, commit] as const];
  }),
);

/** Opens a line that goes dead at the crash point of the first agent its worker claims. */
function openLine(port: number, crashing: ReadonlyMap<string, Crashing>) {
  const line = Symbol("line");
  let mine: Crashing | undefined;
  return openCrashLine(port, ([verb = "", script = "", , key = ""]) => {
    const commit = /^eval(sha)?$/i.test(verb) ? COMMIT_BY_SCRIPT.get(script) : undefined;
    const about = commit && crashing.get(key.split(":agent:")[1] ?? "");
    if (!about) return "passes";
    if (!mine && !about.line) {
      mine = about;
      about.line = line;
    }
    if (about.line !== line) return "passes";
    about.commits.push(commit);
    return about.commits.length === about.point.commit ? about.point.side : "passes";
  });
}

async function startDoomed({ prefix, workspaceRoot }: Stage, redisUrls: readonly string[], modelUrl: string) {
  const settings = { redisUrls, prefix, modelUrl, workspaceRoot, timing: PATIENT_LEASES };
  const doomed = await spawnNode("test/helpers/fixtures/doomed-workers.ts", {
    args: [JSON.stringify(settings)],
  });
  await doomed.waitForLine("ready", { timeoutMs: STARTS_WITHIN_MS });
  return doomed;
}

/** Stops the process by SIGTERM while every run is in its model call, and answers the calls after it has begun to stop. */
async function drain(modelLine: TcpProxy, doomed: NodeProcess, runs: number, untilAll: Wait): Promise<void> {
  const isCalling = (point: number) => modelLine.held.includes(`Go to point ${point}.`);
  const areAllCalling = () => Array.from({ length: runs }, (_, point) => point).every(isCalling);
  await untilAll(areAllCalling, "every run to call the model");
  process.kill(doomed.pid, "SIGTERM");
  await doomed.waitForLine("stopping");
  modelLine.resume();
}

function queueOf({ keys }: Stage): string {
  return `${keys.bullPrefix}:${keys.wakeQueue}`;
}

/**
 * Waits for what the doomed workers do. A worker of a busy machine drops its connection, and with it the answer that brings a wake.
 * BullMQ's check for stalled jobs, which is off here, would find the job without a lock: it is put back into the line.
 */
async function untilHandedOut(
  installation: Stage,
  crashing: ReadonlyMap<string, Crashing>,
  ...[isDone, what]: Parameters<Wait>
): Promise<void> {
  const { redis, keys } = installation;
  const queue = queueOf(installation);
  const handOutAgain = async (id: string) => {
    const agent = crashing.get(id.split(".")[0] ?? "")?.agent;
    if (!agent || (await redis.exists(`${queue}:${id}:lock`))) return;
    if ((await redis.hget(keys.agent(agent).record, "status")) === "running") return;
    if ((await redis.lrem(`${queue}:active`, 0, id)) > 0) await redis.rpush(`${queue}:wait`, id);
  };
  const probe = async () => {
    if (isDone()) return true;
    for (const id of await redis.lrange(`${queue}:active`, 0, -1)) await handOutAgain(id);
    return isDone();
  };
  await until(probe, { what, everyMs: 100, timeoutMs: REPLIES_WITHIN_MS });
}

/** Sets the leases and deadlines of all agents to the past, as if their time had passed. */
async function letLeasesRunOut({ redis, keys }: Stage, agents: readonly { agent: Agent }[]): Promise<void> {
  for (const { agent } of agents) {
    const { record } = keys.agent(agent);
    const status = await redis.hget(record, "status");
    if (status === "running") await redis.hset(record, "lease_until", 1, "deadline", 1);
    if (status === "queued") await redis.hset(record, "deadline", 1);
    await redis.zadd(keys.deadlines, "XX", 1, deadlineMember(agent));
  }
}

async function lookAt(
  installation: Stage,
  agent: Agent,
  { tools, idempotent }: CrashPoint,
  roots: readonly string[],
): Promise<Aftermath> {
  const { redis, keys, offline } = installation;
  const log = Object.entries(await redis.hgetall(keys.agent(agent).log));
  const kinds = log.map(([key, json]) => ({ kind: EntryKey.parse(key).kind, json }));
  const results = kinds.filter(({ kind }) => kind === "result");
  const calls = namedCalls(offline.ledger).filter(({ uid }) => uid === agent.uid);
  const served = calls.filter(({ call }) => call.status === "served");
  const file = idempotent ? "looks.txt" : "notes.txt";
  const lines = countOf((await Promise.all(roots.map((root) => linesOf(root, agent, file)))).flat());
  return {
    replies: (await installation.entries(agent)).map(({ status }) => status),
    bought: TURN_ENTRIES.map((entry) => served.filter(({ message }) => message === entry).length),
    refused: calls.filter(({ call }) => call.status === "error").length,
    effects: Array.from({ length: tools }, (_, call) => lines.get(`call ${call}`) ?? 0).sort((a, b) => b - a),
    interrupted: results.filter(({ json }) => json.includes('"interrupted":true')).length,
    results: results.length,
    notices: kinds.filter(({ kind }) => kind === "notice").length,
  };
}

async function linesOf(root: string, agent: Agent, file: string): Promise<string[]> {
  const path = join(root, agent.tenant, agent.parentId, "agents", agent.agentId, "workspace", file);
  const text = await readFile(path, "utf8").catch(() => "");
  return text.split("\n").filter((line) => line !== "");
}
