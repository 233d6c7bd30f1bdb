/**
 * Guarantee: one bad run cannot sink the pool, and nobody is blamed for it. How many runs stand beside the bad one:
 * `POISON_NEIGHBOURS` (default 16; the long form is 999, on the leases of production).
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { wakeJobId } from "../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { RunProgress } from "../../../src/shared/protocol/reply.ts";
import { createIsolationProcesses } from "../../../src/worker/isolation-processes.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import type { Model } from "../../../src/worker/model/model.ts";
import { Observer } from "../../../src/worker/observe/observer.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { keepWorkers } from "../../helpers/kept-workers.ts";
import { beginning, latch } from "../../helpers/latch.ts";
import { spawnNode } from "../../helpers/processes.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage, type WorkerProcess } from "../../stage/stage.ts";

const NEIGHBOURS = Number(process.env.POISON_NEIGHBOURS ?? 16);
const CONCURRENCY = Math.max(4, Math.ceil(NEIGHBOURS / 50));
/** Long enough for two processes on a busy machine not to be taken for dead. */
const timing =
  NEIGHBOURS > 100 ? TIMING : { ...SHORT_TIMING, leaseMs: 2_500, renewMs: 500, leaseMarginMs: 500 };
const LONG_MS = 60_000 + NEIGHBOURS * 1_000;

const note = (line: string) => ({
  content: [{ type: "tool_use" as const, name: "note", input: { line, ms: 200 } }],
});
const list = (pattern: string) => ({
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern } }],
});
const done = { content: [{ type: "text" as const, text: "done" }] };

async function notesOf({ workspaceRoot }: Stage, agent: Agent): Promise<string[]> {
  const directory = join(workspaceRoot, agent.tenant, agent.parentId, "agents", agent.agentId, "workspace");
  return (await readFile(join(directory, "notes.txt"), "utf8")).trimEnd().split("\n");
}

test(`a run that kills its workers is lost after it died alone; ${NEIGHBOURS} neighbours succeed, each once`, {
  timeout: LONG_MS,
}, async () => {
  const installation = await openStage({
    timing,
    latencyMs: 250,
    scenario: [
      {
        match: { user: "poison" },
        turns: [{ content: [{ type: "tool_use", name: "abort", input: {} }], latencyMs: 50 }],
      },
      { match: { user: "good" }, turns: [note("a"), note("b"), note("c"), done] },
    ],
  });
  const agents: Agent[] = [];
  const poison = await installation.spawn();
  for (let i = 0; i < NEIGHBOURS; i += 1) {
    agents.push(await installation.task(`good ${i}`));
    if (i === 2) await installation.send(poison, "poison");
  }
  const pool = keepWorkers(installation, 2, [poison, ...agents], { concurrency: CONCURRENCY });
  const reply = await installation.reply(poison, 1, LONG_MS);
  expect(reply).toMatchObject({
    kind: "reply",
    status: "failed",
    stop_reason: "worker_lost",
    agent_status: "ended",
    turns: 1,
  });
  const replies = [];
  for (const agent of agents) replies.push(await installation.reply(agent, 1, LONG_MS));
  await pool.stop();

  const { deaths } = pool;
  process.stdout.write(
    `poison: ${NEIGHBOURS} neighbours, died with ${deaths.map(({ held }) => held.length)} runs\n`,
  );
  // The first death follows a committed turn and three that committed nothing follow it, unless a busy machine makes a
  // lease run out without one.
  expect(deaths.length).toBeGreaterThanOrEqual(3);
  expect(deaths.length).toBeLessThanOrEqual(4);
  for (const { held } of deaths) expect(held).toContain(poison.uid);
  expect(deaths.at(-1)?.held).toEqual([poison.uid]);
  expect(Math.max(...deaths.map(({ held }) => held.length))).toBeGreaterThan(1);

  for (const answer of replies) expect(answer).toMatchObject({ status: "succeeded", turns: 4 });
  for (const agent of agents) {
    expect(await installation.entries(agent)).toHaveLength(1);
    const notes = await notesOf(installation, agent);
    expect(new Set(notes).size).toBe(notes.length);
  }
  expect(await installation.entries(poison)).toHaveLength(1);
});

/** An agent whose last worker died without a step and was not found dead yet; `fields` say what happened before. */
async function heldByTheDead(installation: Stage, fields: Record<string, string>): Promise<Agent> {
  const { redis, keys, store } = installation;
  const agent = await installation.spawn();
  await store.send(agent, {
    message_id: agent.uid,
    payload: JSON.stringify({ v: 1, message_id: agent.uid, text: "work" }),
    digest: "",
  });
  const held = { status: "running", epoch: "4", lease_until: "1", committed: "0" };
  await redis.hset(keys.agent(agent).record, { ...held, ...fields });
  return agent;
}

function wake({ wakes }: Stage, agent: Agent, wake = 1): Promise<void> {
  const { tenant, parentId: parent_id, uid, agentId: agent_id } = agent;
  return wakes.add({ tenant, parent_id, uid, agent_id, wake });
}

/** An agent of whose run two workers seem to have died. */
async function suspect(installation: Stage): Promise<Agent> {
  const agent = await heldByTheDead(installation, { crashes_without_progress: "1" });
  await wake(installation, agent);
  return agent;
}

function pairsOf(flat: readonly string[]): [string, string][] {
  return flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] ?? ""] as [string, string]] : []));
}

/** The real model, and what is active in the worker whenever a call begins and ends. */
function watchedModel(installation: Stage, look: () => readonly string[]) {
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: installation.offline.url });
  closeAtEnd(() => model.stop());
  const seen: { uid: string; active: readonly string[] }[] = [];
  const watched: Model = {
    ...model,
    async call(request, options) {
      const uid = request.purchaseId.split(".")[0] ?? "";
      seen.push({ uid, active: [...look()] });
      return model.call(request, options).finally(() => seen.push({ uid, active: [...look()] }));
    },
  };
  return { watched, seen };
}

test("suspects that did nothing run alone until their first step, one after the other, and nobody loses anything", async () => {
  const installation = await openStage({
    timing,
    latencyMs: 150,
    scenario: { turns: [list("a"), list("b"), done] },
  });
  const others = await Promise.all(Array.from({ length: 5 }, (_, i) => installation.task(`other ${i}`)));
  const suspects = await Promise.all([1, 2, 3].map(() => suspect(installation)));
  const active: { of(): string[] } = { of: () => [] };
  const { watched, seen } = watchedModel(installation, () => active.of());
  const worker = await installation.startWorker({ model: watched });
  active.of = worker.active;
  const agents = [...others, ...suspects];
  for (const agent of agents) {
    expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", turns: 3 });
    expect(await installation.entries(agent)).toHaveLength(1);
    expect((await installation.record(agent)).crashes_without_progress).toBeLessThan(3);
  }
  for (const { uid } of suspects) {
    const [began, ended] = seen.filter((call) => call.uid === uid);
    expect([began?.active, ended?.active]).toEqual([[uid], [uid]]);
  }
  expect(Math.max(...seen.map((call) => call.active.length))).toBeGreaterThan(2);
  const served = installation.offline.ledger.filter(({ status }) => status === "served");
  expect(served).toHaveLength(agents.length * 3);
});

test("a run that died alone is settled from its record: what kills whoever reads it is not read again", async () => {
  const installation = await openStage({ timing, scenario: { turns: [done] } });
  const { redis, keys } = installation;
  const crashed = { crashes_without_progress: "2", isolation: "own_worker", running_ms: "4321" };
  const agent = await heldByTheDead(installation, crashed);
  const { log, inbox } = keys.agent(agent);
  await redis.hset(log, "0", "never to be parsed");
  await redis.lpush(inbox, "nor this");
  await installation.startWorker();
  await wake(installation, agent);
  await installation.recordWhere(agent, ({ status }) => status === "ended");
  expect(await redis.exists(log)).toBe(0);
  const [[, fields] = ["", []]] = await redis.xrange(keys.parent(agent).replies, "-", "+");
  const entry = Object.fromEntries(pairsOf(fields));
  expect(entry).toMatchObject({ kind: "reply", status: "failed", stop_reason: "worker_lost" });
  expect(RunProgress.parse(JSON.parse(entry.body ?? ""))).toMatchObject({
    turns: 0,
    duration_ms: 4_321,
    error: expect.stringContaining("crashed"),
  });
});

test.for([
  { moment: "a suspect waits for the others to go", suspectsFirst: false },
  { moment: "a suspect is alone", suspectsFirst: true },
])("a worker stops while $moment, and another one finishes everything", async ({ suspectsFirst }) => {
  const installation = await openStage({ timing, scenario: { turns: [list("a"), done] } });
  const [asked, drains] = [latch(), latch()];
  // It would outlast the test.
  const drainGraceMs = 600_000;
  const model = heldModel(installation, () => {
    asked.open();
    return drains.opened;
  });
  const worker = await installation.startWorker({
    model,
    drainGraceMs,
    clock: beginning(drainGraceMs, drains),
  });
  const send = (isSuspect: boolean) => (isSuspect ? suspect(installation) : installation.task("work"));
  const first = await send(suspectsFirst);
  await asked.opened;
  const second = await send(!suspectsFirst);
  await installation.recordWhere(
    suspectsFirst ? first : second,
    (record) => record.crashes_without_progress === 2,
  );
  expect(worker.active()).toEqual([first.uid]);
  await worker.stop();
  expect(installation.offline.ledger.map(({ status }) => status)).toEqual(["served"]);
  await installation.startWorker();
  for (const agent of [first, second]) {
    expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", turns: 2 });
  }
});

/** Ends a worker whose only run is a suspect in a process of its own; the run is back in the queue without a further crash. */
async function expectHandedBack(end: (worker: WorkerProcess) => Promise<unknown>): Promise<void> {
  const installation = await openStage({ timing: TIMING, latencyMs: 60_000 });
  const worker = await installation.spawnWorker({ isolation: true, drainGraceMs: 100 });
  const agent = await suspect(installation);
  const { record } = installation.keys.agent(agent);
  const claimed = () => installation.redis.hget(record, "isolation");
  await until(async () => (await claimed()) === "group");
  await end(worker);
  // No other worker is there: only the process of the suspect can have handed it back.
  const left = await installation.recordWhere(agent, ({ status }) => status === "queued");
  expect(left.crashes_without_progress).toBe(2);
  expect(await installation.redis.hget(record, "isolated_crashes")).toBeNull();
}

test("a suspect whose worker is killed is handed back by its process: that is no crash", () =>
  expectHandedBack((worker) => worker.kill()));

test("a suspect whose worker stops is handed back by its process: that is no crash", () =>
  expectHandedBack((worker) => worker.kill("SIGTERM")));

test("a process of suspects that speaks to a worker that has just been killed lives on to hand its runs back", async () => {
  const worker = await spawnNode("test/helpers/fixtures/orphaned-suspects.ts");
  // Its process has the same output, so that this is the end of both.
  await worker.closed;
  expect([...worker.stdout, ...worker.stderr]).toEqual(["every run is handed back"]);
});

test("what a process of suspects buys and does is in the metrics of its worker", async () => {
  const overloaded = { status: 529, type: "overloaded_error" };
  const first = { ...list("a"), failures: [overloaded] };
  const installation = await openStage({ scenario: { turns: [first, done] } });
  const prices = { "offline-1": { input: 1, output: 5, cache_read: 0.1, cache_write: 1.25 } };
  const worker = await installation.commandLineWorker({ env: { SUBAGENT_PRICES: JSON.stringify(prices) } });
  const agent = await suspect(installation);
  const { tokens, cost_usd: costUsd } = await installation.reply(agent);
  const scrape = async () => (await fetch(`${worker.health}/metrics`)).text();
  const text = await until(async () => {
    const now = await scrape();
    return now.includes('subagent_wakes_taken_total{outcome="settled"} 1') && now;
  });
  expect(worker.stderr.some((line) => line.includes("it runs in isolation"))).toBe(true);
  const sum = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (.+)$`, "gm"))].reduce(
      (all, [, n]) => all + Number(n),
      0,
    );
  expect([sum("subagent_tokens_total"), sum("subagent_turn_duration_seconds_count")]).toEqual([tokens, 2]);
  expect(sum("subagent_cost_usd_total")).toBeCloseTo(costUsd, 9);
  expect(sum("subagent_model_refusals_total")).toBe(1);
  expect(sum("subagent_tool_duration_seconds_count")).toBe(1);
  expect(sum("subagent_runs_total")).toBe(1);
});

test("a suspect whose process cannot be started runs alone in its worker", async () => {
  const installation = await openStage({ timing, scenario: { turns: [done] } });
  await installation.startWorker({ isolation: { file: "/there/is/no/such/program.js" } });
  const agent = await suspect(installation);
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
});

test("a suspect that waits for its process to start takes one place, and runs nowhere else meanwhile", async () => {
  const installation = await openStage({ timing, scenario: { turns: [done] } });
  const { workspaceRoot, redis, keys, offline } = installation;
  const file = join(import.meta.dirname, "../../helpers/fixtures/held-program.mjs");
  const gate = join(workspaceRoot, "process-may-end");
  await installation.startWorker({ concurrency: 4, isolation: { file, args: [gate] } });
  const agent = await heldByTheDead(installation, { begun: "" });
  await wake(installation, agent, 1);
  await installation.recordWhere(agent, ({ status }) => status === "queued");
  await wake(installation, agent, 2);
  const taken = () => redis.hget(keys.wakeJob(wakeJobId({ uid: agent.uid, wake: 2 })), "ats");
  await until(async () => Number(await taken()) >= 2, { what: "the second wake to be put back" });
  expect(offline.ledger).toEqual([]);
  // Its program is of no use, so that it may run alone in the worker.
  await writeFile(gate, "");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
});

/** Of one process with one place. */
const PLACES = { concurrency: 4, drainGraceMs: 100 };

test("a run that comes before its process takes runs waits until then", async () => {
  const worker = await spawnNode("test/helpers/fixtures/early-suspect.ts");
  await worker.closed;
  expect([...worker.stdout, ...worker.stderr]).toEqual(["ready", "end"]);
});

test("a process of suspects that is told to end and does not is killed, and another takes its place", async () => {
  const installation = await openStage({ timing });
  const { store, deadlines, wakes } = installation;
  const clock = handClock();
  const logger = createLogger({ level: "silent" });
  const keeping = { store, deadlines, wakes, clock, logger, observer: new Observer(logger) };
  const file = join(import.meta.dirname, "../../helpers/fixtures/deaf-suspects.mjs");
  const processes = createIsolationProcesses(keeping, { file }, PLACES);
  closeAtEnd(() => processes.stop());
  const taken = { address: await installation.spawn(), wake: 1, timesTaken: 1 };
  const passed = { status: "passed", reason: "tried" };
  expect(await processes.run(taken, 0)).toEqual(passed);
  // It is idle for so long, and then told to end.
  clock.advance(10_000);
  clock.advance(PLACES.drainGraceMs + 14_999);
  expect([processes.run(taken, 0), clock.pending]).toEqual([undefined, 1]);
  clock.advance(1);
  const next = await until(() => {
    const end = processes.run(taken, 0);
    return end && { end };
  });
  expect(await next.end).toEqual(passed);
});

test("a process of suspects that does not start in time is ended, and its suspect is put back", async () => {
  const installation = await openStage({ timing });
  const { store, deadlines, wakes, workspaceRoot } = installation;
  const clock = handClock();
  const logger = createLogger({ level: "silent" });
  const keeping = { store, deadlines, wakes, clock, logger, observer: new Observer(logger) };
  const file = join(import.meta.dirname, "../../helpers/fixtures/held-program.mjs");
  const processes = createIsolationProcesses(keeping, { file, args: [join(workspaceRoot, "never")] }, PLACES);
  const address = await installation.spawn();
  let end: unknown;
  void processes.run({ address, wake: 1, timesTaken: 1 }, 0)?.then((ended) => {
    end = ended;
  });
  expect(processes.awaits(address.uid)).toBe(true);
  clock.advance(60_000);
  expect(await until(() => end)).toMatchObject({ status: "returned", reason: "isolation" });
  expect(processes).toMatchObject({ isUsable: true, hasRoom: true });
  expect(clock.pending).toBe(0);
});
