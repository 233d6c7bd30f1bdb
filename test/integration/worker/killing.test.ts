/**
 * Guarantee: `kill -9` of a worker costs time and nothing else. Rounds: `KILL_ROUNDS` (default 4, the long form is 50);
 * with `KILL_TIMING=production` on the leases of production. Moments and victims are drawn from `KILL_SEED`.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { LedgerEntry } from "../../../src/offline/server.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { percentile, reportTime } from "../../helpers/figures.ts";
import { startPrivateRedis } from "../../helpers/redis.ts";
import { seeded } from "../../helpers/seeded.ts";
import { until } from "../../helpers/until.ts";
import { watchLogs } from "../../helpers/watch-logs.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage, type WorkerProcess } from "../../stage/stage.ts";

const ROUNDS = Number(process.env.KILL_ROUNDS ?? 4);
const SEED = Number(process.env.KILL_SEED ?? Date.now() % 1_000_000);
const timing = process.env.KILL_TIMING === "production" ? TIMING : SHORT_TIMING;
const TURNS = 10;
/** What a turn leaves in the log: the call, and the beginning and the result of both tools. */
const ENTRIES_A_TURN = 5;
const FEWEST_FOR_P95 = 50;
const LATENCY_MS = 40;
const ROUND_MS = timing.leaseMs + 15_000;

const scenario = {
  turns: [
    ...Array.from({ length: TURNS - 1 }, (_, turn) => ({
      content: ["note", "look"].map((name) => ({
        type: "tool_use" as const,
        name,
        input: { line: `${turn}`, ms: 20 },
      })),
    })),
    { content: [{ type: "text" as const, text: "All noted." }] },
  ],
};

/** Calls of this round that were begun after their turn had been committed. */
function boughtTwice(
  { keys }: Stage,
  agent: Agent,
  ledger: readonly LedgerEntry[],
  written: ReadonlyMap<string, number>,
): LedgerEntry[] {
  const committedAt = (turn: number) => written.get(`${keys.agent(agent).log} ${2 * turn + 1}`) ?? Infinity;
  return ledger.filter((call) => call.began_at > committedAt(call.turn));
}

async function notesOf({ workspaceRoot }: Stage, agent: Agent): Promise<string[]> {
  const directory = join(workspaceRoot, agent.tenant, agent.parentId, "agents", agent.agentId, "workspace");
  return (await readFile(join(directory, "notes.txt"), "utf8")).trimEnd().split("\n");
}

test(`kill -9 of the busy worker, ${ROUNDS} rounds: every run succeeds once and no committed turn is bought twice`, {
  timeout: 300_000 + ROUNDS * ROUND_MS,
}, async () => {
  const chance = seeded(SEED);
  const server = await startPrivateRedis();
  const logs = await watchLogs([server.port]);
  const installation = await openStage({
    redis: server,
    scenario,
    timing,
    latencyMs: LATENCY_MS,
  });
  const { offline, redis, keys } = installation;
  let workers: WorkerProcess[] = await Promise.all([installation.spawnWorker(), installation.spawnWorker()]);
  const redispatchMs: number[] = [];
  let bought = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const ledgerStart = offline.ledger.length;
    const agent = await installation.task(`round ${round} of ${SEED}`);
    // Two calls are yet to be answered then, by this process: the run cannot end while it looks the other way.
    const commits = chance.between(0, (TURNS - 2) * ENTRIES_A_TURN + 1);
    const log = keys.agent(agent).log;
    await until(async () => (await redis.hlen(log)) >= commits, { everyMs: 1, timeoutMs: ROUND_MS });
    const { worker } = await installation.recordWhere(agent, ({ status }) => status === "running");
    const victim = workers.find(({ id }) => id === worker);
    if (!victim) throw new Error(`nobody is ${worker}`);
    const killedMs = performance.now();
    await victim.kill();
    const replacing = installation.spawnWorker();
    // Awaited at the end of the round; if the round fails first, its own failure counts.
    replacing.catch(() => {});
    const { epoch, ...left } = await installation.record(agent);
    expect(left, `round ${round}: the kill hits an active run`).toMatchObject({ status: "running", worker });
    await installation.recordWhere(agent, (record) => record.epoch > epoch, ROUND_MS);
    redispatchMs.push(performance.now() - killedMs);
    const reply = await installation.reply(agent, 1, ROUND_MS);
    expect(reply, `round ${round}`).toMatchObject({
      status: "succeeded",
      turns: TURNS,
      summary: "All noted.",
    });
    // Killed between the mark of its beginning and its work, a call is reported as interrupted: once or never, not twice.
    const notes = await notesOf(installation, agent);
    expect(new Set(notes).size, `round ${round}: ${notes}`).toBe(notes.length);
    expect(notes.length).toBeGreaterThanOrEqual(TURNS - 2);
    await logs.caughtUp();
    bought += boughtTwice(installation, agent, offline.ledger.slice(ledgerStart), logs.written).length;
    expect(await installation.entries(agent)).toHaveLength(1);
    if ((round + 1) % 10 === 0)
      process.stdout.write(`${round + 1} rounds survived, ${bought} turns bought twice\n`);
    workers = [...workers.filter((one) => one !== victim), await replacing];
  }
  redispatchMs.sort((a, b) => a - b);
  const [p50, p95, max] = [
    percentile(redispatchMs, 0.5),
    percentile(redispatchMs, 0.95),
    redispatchMs.at(-1) ?? 0,
  ];
  const served = offline.ledger.filter(({ status }) => status === "served").length;
  process.stdout.write(
    `kill -9: seed ${SEED}, ${ROUNDS} rounds, ${served} calls served for ${ROUNDS * TURNS} turns, ` +
      `redispatch p50 ${Math.round(p50)} ms, p95 ${Math.round(p95)} ms, max ${Math.round(max)} ms\n`,
  );
  expect(bought).toBe(0);
  expect(logs.written.size).toBeGreaterThanOrEqual(ROUNDS * TURNS * 2);
  // Of few rounds the slowest says more of the machine than of us.
  reportTime("redispatch", ROUNDS < FEWEST_FOR_P95 ? p50 : p95, timing.leaseMs + 3_000);
});
