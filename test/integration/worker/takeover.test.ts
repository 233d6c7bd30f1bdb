/** Guarantee: a worker whose lease is over does nothing any more, and whoever takes over repeats nothing. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { onAbort } from "../../../src/shared/stop-signal.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { setClockForth } from "../../helpers/redis-clock.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage, type WorkerProcess } from "../../stage/stage.ts";

// Each test starts two processes, on machines that may be busy. Where a tool waits for its gate, the second one starts when the
// first has stopped: else it could take the agent from a first that was kept from renewing, and that one, whose tool does not
// return, would end by itself.

const timing = SHORT_TIMING;
/** With a `gate` it goes on until {@link open} is called for that gate. */
const note = (line: string, gate?: string) => ({
  type: "tool_use" as const,
  name: "note",
  input: { line, ...(gate && { gate }) },
});
const look = (line: string, gate: string) => ({ ...note(line, gate), name: "look" });
const done = { content: [{ type: "text" as const, text: "done" }] };

function pathOf({ workspaceRoot }: Stage, agent: Agent, file: string): string {
  return join(workspaceRoot, agent.tenant, agent.parentId, "agents", agent.agentId, "workspace", file);
}

const open = (installation: Stage, agent: Agent, gate: string) =>
  writeFile(pathOf(installation, agent, gate), "");

function linesOf(installation: Stage, agent: Agent, file: string): Promise<string[]> {
  return readFile(pathOf(installation, agent, file), "utf8").then(
    // A file that was just made is still empty.
    (text) => text.split("\n").filter((line) => line !== ""),
    () => [],
  );
}

/** The worker that runs the agent. */
async function holderOf(installation: Stage, agent: Agent, workers: readonly WorkerProcess[]) {
  const { worker } = await installation.recordWhere(agent, ({ status }) => status === "running");
  const holder = workers.find(({ id }) => id === worker);
  if (!holder) throw new Error(`no worker is ${worker}`);
  return holder;
}

const servedTurns = ({ offline }: Stage) =>
  offline.ledger.filter(({ status }) => status === "served").map(({ turn }) => turn);

/**
 * What is bought from now on. Before, a worker that a busy machine kept from renewing may have lost its first call: only a
 * committed turn is never bought again.
 */
function boughtFromNow(installation: Stage) {
  const before = servedTurns(installation).length;
  return () => servedTurns(installation).slice(before);
}

test("a worker frozen in a tool past its lease starts no tool, buys no turn and writes nothing when it wakes", async () => {
  const installation = await openStage({
    timing,
    scenario: [
      {
        match: { user: "work" },
        turns: [{ content: [note("a", "thawed")] }, { content: [note("b")] }, done],
      },
      { turns: [done] },
    ],
  });
  const holder = await installation.spawnWorker();
  const agent = await installation.task("work", { keep_alive: true });
  await until(async () => (await linesOf(installation, agent, "notes.txt")).length === 1);
  const bought = boughtFromNow(installation);
  holder.freeze();
  await installation.spawnWorker();
  const reply = await installation.reply(agent);
  expect(reply).toMatchObject({ status: "succeeded", turns: 3, tools_called: { note: 2 } });
  const { redis, keys, offline } = installation;
  const callsOf = (conversation?: string) =>
    offline.ledger.filter((call) => call.conversation === conversation);
  const snapshot = async () => ({
    record: await redis.hgetall(keys.agent(agent).record),
    log: await redis.hgetall(keys.agent(agent).log),
    entries: await installation.entries(agent),
    calls: callsOf(offline.ledger[0]?.conversation).length,
    notes: await linesOf(installation, agent, "notes.txt"),
  });
  const before = await snapshot();
  expect(before.notes).toEqual(["a", "b"]);
  expect(bought()).toEqual([1, 2]);
  await open(installation, agent, "thawed");
  holder.thaw();
  // The zombie is whole again when it takes and finishes other work.
  await until(
    async () => {
      const other = await installation.task("other");
      await installation.reply(other);
      return (await installation.record(other)).worker === holder.id;
    },
    { what: "the thawed worker to finish other work" },
  );
  expect(await snapshot()).toEqual(before);
});

test("a worker that comes back while another one runs its agent leaves that run alone", async () => {
  const installation = await openStage({
    timing,
    scenario: [
      {
        match: { user: "work" },
        turns: [{ content: [note("a", "thawed")] }, { content: [note("b", "finish")] }, done],
      },
      { turns: [done] },
    ],
  });
  const holder = await installation.spawnWorker();
  const agent = await installation.task("work", { keep_alive: true });
  await until(async () => (await linesOf(installation, agent, "notes.txt")).length === 1);
  holder.freeze();
  const other = await installation.spawnWorker();
  await until(async () => (await linesOf(installation, agent, "notes.txt")).length === 2);
  const held = await installation.record(agent);
  expect(held.worker).toBe(other.id);
  await open(installation, agent, "thawed");
  holder.thaw();
  await until(
    async () => {
      const next = await installation.task("other");
      await installation.reply(next);
      return (await installation.record(next)).worker === holder.id;
    },
    { what: "the thawed worker to finish other work" },
  );
  const { epoch, worker, status, wake } = held;
  expect(await installation.record(agent)).toMatchObject({ epoch, worker, status, wake });
  await open(installation, agent, "finish");
  const reply = await installation.reply(agent);
  expect(reply).toMatchObject({ status: "succeeded", turns: 3, tools_called: { note: 2 } });
  expect(await linesOf(installation, agent, "notes.txt")).toEqual(["a", "b"]);
});

test("a worker that claims its own run again after Redis' clock jumped stops what it did under the first claim", async () => {
  const begun = latch();
  const stopped = latch();
  const wait = defineTool({
    name: "wait",
    description: "Waits until it is stopped.",
    input: z.object({}),
    run: async (_input, { signal }) => {
      begun.open();
      onAbort(signal, () => stopped.open());
      await stopped.opened;
      return "stopped";
    },
  });
  const call = { type: "tool_use" as const, name: "wait", input: {} };
  const stage = await openStage({ scenario: { turns: [{ content: [call] }, done] } });
  const worker = await stage.startWorker({ tools: [wait] });
  const agent = await stage.task("work", { keep_alive: true });
  await begun.opened;
  await setClockForth(stage, 2 * TIMING.leaseMs);
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", turns: 2 });
  await stopped.opened;
  await until(() => worker.active().length === 0);
  const log = await stage.redis.hgetall(stage.keys.agent(agent).log);
  const results = Object.entries(log).flatMap(([key, json]) =>
    key.endsWith("/result") ? [JSON.parse(json)] : [],
  );
  expect(results).toEqual([expect.objectContaining({ interrupted: true })]);
});

test("a worker whose event loop was blocked past its lease begins no other tool of the turn, and commits none", async () => {
  const block = { type: "tool_use" as const, name: "block", input: { ms: timing.leaseMs + 8_000 } };
  const installation = await openStage({
    timing,
    scenario: { turns: [{ content: [block, note("never")] }, done] },
  });
  const workers = await Promise.all([installation.spawnWorker(), installation.spawnWorker()]);
  const agent = await installation.task("work", { keep_alive: true });
  const holder = await holderOf(installation, agent, workers);
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", turns: 2 });
  const record = await installation.record(agent);
  expect(record.worker).not.toBe(holder.id);
  // The blocked process has come back to life when it does what it is told.
  const ending = await holder.kill("SIGTERM");
  expect(ending).toEqual({ code: 0, signal: null });
  expect(await linesOf(installation, agent, "notes.txt")).toEqual([]);
  expect(await installation.record(agent)).toEqual(record);
  const log = await installation.redis.hgetall(installation.keys.agent(agent).log);
  const results = Object.entries(log).flatMap(([key, json]) =>
    key.endsWith("/result") ? [JSON.parse(json)] : [],
  );
  expect(results.map(({ interrupted }) => interrupted)).toEqual([true, true]);
});

test("a worker frozen in a model call past its lease cannot commit the answer when it wakes", async () => {
  const installation = await openStage({
    timing,
    scenario: { turns: [{ content: [note("a")] }, { ...done, latencyMs: 1_500 }] },
  });
  const workers = await Promise.all([installation.spawnWorker(), installation.spawnWorker()]);
  const agent = await installation.task("work", { keep_alive: true });
  await until(() => servedTurns(installation).at(-1) === 0 && installation.offline.inFlight === 1);
  const holder = await holderOf(installation, agent, workers);
  holder.freeze();
  const reply = await installation.reply(agent);
  expect(reply).toMatchObject({ status: "succeeded", turns: 2 });
  const record = await installation.record(agent);
  holder.thaw();
  const others = await Promise.all(Array.from({ length: 12 }, (_, i) => installation.task(`other ${i}`)));
  for (const other of others) await installation.reply(other);
  expect(await installation.entries(agent)).toHaveLength(1);
  expect(await installation.record(agent)).toEqual(record);
  expect(await linesOf(installation, agent, "notes.txt")).toEqual(["a"]);
});

test("after a crash a started tool is reported as unknown, an idempotent one runs again, no turn is bought again", async () => {
  const calls = [note("once", "never"), look("twice", "crashed"), note("finished")];
  const installation = await openStage({ timing, scenario: { turns: [{ content: calls }, done] } });
  const holder = await installation.spawnWorker();
  const agent = await installation.task("work", { keep_alive: true });
  const { redis, keys } = installation;
  const results = async () => {
    const log = Object.entries(await redis.hgetall(keys.agent(agent).log));
    return log.filter(([key]) => key.endsWith("/result")).map(([, json]) => JSON.parse(json));
  };
  const linesIn = async (file: string) => (await linesOf(installation, agent, file)).length;
  await until(
    async () =>
      (await results()).length === 1 &&
      (await linesIn("looks.txt")) === 1 &&
      (await linesIn("notes.txt")) === 2,
  );
  const bought = boughtFromNow(installation);
  await holder.kill();
  await installation.spawnWorker();
  await open(installation, agent, "crashed");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", turns: 2 });
  expect((await linesOf(installation, agent, "notes.txt")).sort()).toEqual(["finished", "once"]);
  expect(await linesOf(installation, agent, "looks.txt")).toEqual(["twice", "twice"]);
  expect(bought()).toEqual([1]);
  const contents = (await results()).map(({ content, is_error = false, interrupted = false }) => [
    content,
    is_error,
    interrupted,
  ]);
  expect(contents).toHaveLength(3);
  expect(contents).toContainEqual([expect.stringContaining("effect is unknown"), true, true]);
  expect(contents).toContainEqual(["noted twice", false, false]);
  expect(contents).toContainEqual(["noted finished", false, false]);
});

test("a run that continues on a machine without its workspace tells the model that the files are gone", async () => {
  const elsewhere = await mkdtemp(join(tmpdir(), "elsewhere-"));
  closeAtEnd(() => rm(elsewhere, { recursive: true, force: true }));
  const installation = await openStage({
    timing,
    scenario: { turns: [{ content: [note("a", "never")] }, done] },
  });
  const first = await installation.spawnWorker();
  const agent = await installation.task("work", { keep_alive: true });
  await until(async () => (await linesOf(installation, agent, "notes.txt")).length === 1);
  await first.kill();
  await installation.spawnWorker({ workspaceRoot: elsewhere });
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
  const log = await installation.redis.hgetall(installation.keys.agent(agent).log);
  expect(log["2/notice"]).toContain("not there any more");
});

test("a run whose workspace cannot be made is handed back, not lost, and goes on where it can be made", async () => {
  const looks = { content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }] };
  const installation = await openStage({ timing, scenario: { turns: [looks, done] } });
  const workspaceRoot = join(installation.workspaceRoot, "taken");
  const broken = await installation.startWorker({ workspaceRoot });
  await rm(workspaceRoot, { recursive: true });
  await writeFile(workspaceRoot, "a file where the directory was");
  const agent = await installation.task("work");
  const released = await installation.recordWhere(
    agent,
    ({ status, wake }) => status === "queued" && wake === 2,
  );
  expect(released.attempts).toBe(1);
  await until(() => broken.active().length === 0);
  await broken.stop();
  await installation.startWorker();
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
});
