/**
 * Performs one batch of the crash-point matrix: as many workers as points in one process, each behind a line that goes
 * dead at its point; when all have, the process is killed, and one worker in this process finishes every run.
 */
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Scenario } from "../../src/offline/server.ts";
import { EntryKey } from "../../src/shared/protocol/log.ts";
import { TIMING, type Timing } from "../../src/shared/protocol/timing.ts";
import { luaSource } from "../../src/shared/redis/scripts.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { openCrashLine } from "../helpers/crash-line.ts";
import { noteAndLook } from "../helpers/fixtures/journaling-tools.ts";
import { type Agent, type Installation, openInstallation } from "../helpers/installation.ts";
import { spawnNode } from "../helpers/processes.ts";
import { type Aftermath, COMMITS, type Commit, type CrashPoint } from "./crash-points.ts";
import { countOf } from "./evidence.ts";
import { namedCalls } from "./oracle-turns.ts";

/** Long enough that every worker of a batch reaches its point under its first lease. */
const PATIENT_LEASES: Timing = {
  ...TIMING,
  leaseMs: 6_000,
  renewMs: 1_000,
  leaseMarginMs: 1_000,
  lookMs: 1_000,
  longestLookMs: 2_000,
};
const STARTS_WITHIN_MS = 60_000;
/** A wake that died in BullMQ's hands is given out again after its lock and a check for stalled jobs. */
const REPLIES_WITHIN_MS = 60_000;
const TURN_ENTRIES = [1, 3, 5];

/** A point, the agent that went through it, and what came of it. */
export interface CrashResult {
  point: CrashPoint;
  commits: Commit[];
  aftermath: Aftermath;
}

/** Crashes at each of `points`, which share a host and a kind of tool, and goes on. */
export async function crashAt(
  redis: { url: string; port: number },
  points: readonly CrashPoint[],
): Promise<CrashResult[]> {
  const installation = await openInstallation({
    redisUrl: redis.url,
    timing: PATIENT_LEASES,
    scenario: scenarioFor(points),
  });
  const agents = new Map<string, { agent: Agent; point: CrashPoint; commits: Commit[] }>();
  const lines = await Promise.all(points.map(() => openLine(redis.port, agents)));
  const doomed = await startDoomed(
    installation,
    lines.map((line) => line.url),
  );
  for (const [i, point] of points.entries()) {
    const agent = await installation.spawn({ keep_alive: true });
    agents.set(agent.uid, { agent, point, commits: [] });
    await installation.send(agent, `Go to point ${i}.`);
  }
  await Promise.all(lines.map((line) => line.dead));
  await doomed.kill();

  const elsewhere = await mkdtemp(join(tmpdir(), "elsewhere-"));
  closeAtEnd(() => rm(elsewhere, { recursive: true, force: true }));
  const roots = [installation.workspaceRoot, elsewhere];
  const host = points[0]?.host === "other" ? elsewhere : installation.workspaceRoot;
  await installation.startWorker({ workspaceRoot: host, tools: noteAndLook(), concurrency: points.length });
  return Promise.all(
    [...agents.values()].map(async ({ agent, point, commits }) => {
      await installation.reply(agent, 1, REPLIES_WITHIN_MS);
      await installation.send(agent, "Go on.");
      await installation.reply(agent, 2, REPLIES_WITHIN_MS);
      return { point, commits, aftermath: await lookAt(installation, agent, point, roots) };
    }),
  );
}

/** The same plot for every point: a turn with tool calls, a report, and a word for the follow-up. */
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

/** A connection hands a script over in full the first time and names it by its digest from then on. */
const COMMIT_BY_SCRIPT: ReadonlyMap<string, Commit> = new Map(
  COMMITS.flatMap((commit) => {
    const source = luaSource(commit);
    const sha = createHash("sha1").update(source).digest("hex");
    return [[source, commit] as const, [sha, commit] as const];
  }),
);

/** A line that learns from the first claim whose point it is for. */
function openLine(port: number, agents: ReadonlyMap<string, { point: CrashPoint; commits: Commit[] }>) {
  let mine: { point: CrashPoint; commits: Commit[] } | undefined;
  return openCrashLine(port, ([verb = "", script = "", , key = ""]) => {
    const commit = /^eval(sha)?$/i.test(verb) ? COMMIT_BY_SCRIPT.get(script) : undefined;
    if (!commit) return "passes";
    mine ??= agents.get(key.split(":agent:")[1] ?? "");
    mine?.commits.push(commit);
    return mine?.commits.length === mine?.point.commit ? (mine?.point.side ?? "passes") : "passes";
  });
}

async function startDoomed({ prefix, offline, workspaceRoot }: Installation, redisUrls: readonly string[]) {
  const settings = { redisUrls, prefix, modelUrl: offline.url, workspaceRoot, timing: PATIENT_LEASES };
  const doomed = await spawnNode("test/helpers/fixtures/doomed-workers.ts", {
    args: [JSON.stringify(settings)],
  });
  await doomed.waitForLine("ready", { timeoutMs: STARTS_WITHIN_MS });
  return doomed;
}

async function lookAt(
  installation: Installation,
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
