/**
 * Guarantee: a failover in the middle costs time and nothing else, if the new master has what the old one acknowledged
 * (`cluster-trouble.test.ts` is about what it has not). A master of a real six-node cluster ends under load: the one that holds
 * the parents, then the one that holds what all workers share. Parents in this process, workers in processes of their own.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeAll, expect, test } from "vitest";
import type { Parent } from "../../src/producer/parent.ts";
import type { SubagentError } from "../../src/shared/errors.ts";
import type { Reply } from "../../src/shared/protocol/reply.ts";
import type { ClusterServer, RedisCluster } from "../helpers/cluster.ts";
import { started, testClient, testParent } from "../helpers/parents.ts";
import { startPrivateCluster } from "../helpers/redis.ts";
import { whileRetryable } from "../helpers/retryable.ts";
import { until } from "../helpers/until.ts";
import { watchLogs } from "../helpers/watch-logs.ts";
import { openStage, type Stage } from "../stage/stage.ts";

const PARENTS = 4;
const AGENTS_EACH = 10;
const RUNS = PARENTS * AGENTS_EACH;
const TURNS = 6;
const LATENCY_MS = 250;
const RESUMES_WITHIN_MS = 30_000;

let cluster: RedisCluster;
beforeAll(async () => {
  cluster = await startPrivateCluster();
});
afterEach(() => cluster.repair());

const scenario = {
  turns: [
    ...Array.from({ length: TURNS - 1 }, (_, turn) => ({
      content: [{ type: "tool_use" as const, name: "note", input: { line: `${turn}`, ms: 20 } }],
    })),
    { content: [{ type: "text" as const, text: "All noted." }] },
  ],
};

/** Ids of parents whose keys lie on one master, and not on `shared`. */
async function parentsApart({ keys }: Stage, shared: ClusterServer): Promise<string[]> {
  const ids: string[] = [];
  let home: ClusterServer | undefined;
  for (let i = 0; ids.length < PARENTS; i += 1) {
    const parentId = `planner-${i}`;
    const { master } = await cluster.holderOf(keys.parent({ tenant: "default", parentId }).live);
    if (master !== shared) home ??= master;
    if (master === home) ids.push(parentId);
  }
  return ids;
}

/** Everything this parent is told, each entry acked as it comes. */
function listen(parent: Parent, failures: SubagentError[]): Reply[] {
  const seen: Reply[] = [];
  void (async () => {
    for await (const entry of parent.replies()) {
      if (entry.kind === "message" || entry.kind === "question") continue;
      seen.push(entry);
      await whileRetryable(failures, () => entry.ack());
    }
  })();
  return seen;
}

interface Job {
  parent: Parent;
  agentId: string;
}

/** Spawns and asks all agents of a parent, repeating what a failing-over Redis could not answer. */
async function employ(parent: Parent, failures: SubagentError[]): Promise<Job[]> {
  const jobs: Job[] = [];
  for (let i = 0; i < AGENTS_EACH; i += 1) {
    const key = `${parent.parentId}-${i}`;
    const spawn = { name: "noter", keep_alive: true, request_key: key };
    const { agent_id } = await whileRetryable(failures, () => parent.spawn(spawn));
    await whileRetryable(failures, () => parent.send(agent_id, `note for ${key}`, { message_id: key }));
    jobs.push({ parent, agentId: agent_id });
  }
  return jobs;
}

async function notesOf({ workspaceRoot }: Stage, { parent, agentId }: Job): Promise<string[]> {
  const directory = join(workspaceRoot, "default", parent.parentId, "agents", agentId, "workspace");
  return (await readFile(join(directory, "notes.txt"), "utf8")).trimEnd().split("\n");
}

async function runningNow({ redis, keys, store }: Stage, parents: readonly Parent[]): Promise<number> {
  const records = await Promise.all(
    parents.map(async ({ parentId }) => {
      const parent = { tenant: "default", parentId };
      const uids = await redis.hkeys(keys.parent(parent).live);
      return Promise.all(uids.map((uid) => store.record({ ...parent, uid })));
    }),
  );
  return records.flat().filter((record) => record?.status === "running").length;
}

test.for(["the parents", "what all workers share"])(
  "the master that holds %s ends: every run succeeds once, and work goes on by itself",
  async (victim) => {
    const installation = await openStage({
      redis: cluster,
      scenario,
      latencyMs: LATENCY_MS,
    });
    const { keys, prefix, offline } = installation;
    const shared = await cluster.holderOf(keys.deadlines);
    const ids = await parentsApart(installation, shared.master);
    const logs = await watchLogs(cluster.servers.map(({ port }) => port));
    await Promise.all([installation.spawnWorker(), installation.spawnWorker()]);
    const client = await started(testClient({ redisUrl: cluster.url, prefix }));
    const parents = ids.map((parentId) => testParent(client, { parentId }));
    const failures: SubagentError[] = [];
    const seen = parents.map((parent) => listen(parent, failures));
    // Half of the work is there when the master dies, the other half comes while it is gone.
    const early = (await Promise.all(parents.slice(0, 2).map((parent) => employ(parent, failures)))).flat();
    await until(() => offline.ledger.length >= RUNS, { everyMs: 1 });
    const atKill = await runningNow(installation, parents);
    const key =
      victim === "the parents"
        ? keys.parent({ tenant: "default", parentId: ids[0] ?? "" }).live
        : keys.deadlines;
    const { master } = await cluster.holderOf(key);
    const killedAt = Date.now();
    await master.endReplicated();
    const coming = Promise.all(parents.slice(2).map((parent) => employ(parent, failures)));
    await cluster.takenOver(key, master);
    const promotedAt = Date.now();
    const late = (await coming).flat();
    await until(() => seen.flat().length >= RUNS, { timeoutMs: 60_000, what: "all replies", everyMs: 50 });
    const doneAt = Date.now();

    expect(atKill, "the kill hits active runs").toBeGreaterThanOrEqual(10);
    const replies = seen.flat();
    expect(new Set(replies.map(({ reply_id }) => reply_id)).size, "each reply once").toBe(RUNS);
    for (const reply of replies)
      expect(reply).toMatchObject({ status: "succeeded", turns: TURNS, summary: "All noted." });
    const lines = Array.from({ length: TURNS - 1 }, (_, turn) => `${turn}`);
    for (const job of [...early, ...late])
      expect(await notesOf(installation, job), job.agentId).toEqual(lines);

    const served = offline.ledger.filter(({ status }) => status === "served");
    const calls = new Map<string, number>();
    for (const { conversation, turn } of served) {
      const call = `${conversation} ${turn}`;
      calls.set(call, (calls.get(call) ?? 0) + 1);
    }
    const bought = [...calls.values()].filter((times) => times > 1).length;
    await logs.caughtUp();
    const turnsWritten = [...logs.written.keys()].filter((name) => /:log \d*[13579]$/.test(name)).length;
    expect(turnsWritten, "every turn was committed").toBe(RUNS * TURNS);
    expect(bought, "no turn is bought twice").toBe(0);

    // Calls of the time before the kill have long been answered. With the parents gone every run stands still, with the
    // shared part gone only those that have not begun.
    const firstAfter = served.find(
      ({ at, turn }) => at > promotedAt && (victim === "the parents" || turn === 0),
    );
    const resumedMs = firstAfter ? firstAfter.at - LATENCY_MS - promotedAt : Number.POSITIVE_INFINITY;
    process.stdout.write(
      `failover of ${victim}: promoted ${promotedAt - killedAt} ms after the kill, first work ${Math.max(0, resumedMs)} ms ` +
        `after that, all ${RUNS} runs done ${doneAt - promotedAt} ms after it; ${atKill} runs hit, ` +
        `${failures.length} calls of parents repeated, ${served.length} model calls for ${RUNS * TURNS} turns\n`,
    );
    expect(resumedMs).toBeLessThanOrEqual(RESUMES_WITHIN_MS);
    expect(failures.length, "parents called while it was gone").toBeGreaterThan(0);
  },
);
