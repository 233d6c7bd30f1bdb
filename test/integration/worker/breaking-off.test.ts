/** Guarantee: a run that breaks off in its workers again and again ends, typed, and its parent reads why; a lost one writes nothing. */
import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { ToolFailure } from "../../../src/shared/errors.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { totalTokens } from "../../../src/shared/protocol/content.ts";
import { luaSource, type VerbName } from "../../../src/shared/redis/scripts.ts";
import { run } from "../../../src/worker/run/run.ts";
import { writeFileTool } from "../../../src/worker/tools/builtin/write-file.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { openMonitor } from "../../helpers/monitor.ts";
import { startPrivateRedis } from "../../helpers/redis.ts";
import { kindsWith, runContextOf } from "../../helpers/run-context.ts";
import { until } from "../../helpers/until.ts";
import { openStage, SHORT_TIMING } from "../../stage/stage.ts";

const done = { turns: [{ content: [{ type: "text" as const, text: "done" }] }] };

/** A queued agent whose log holds an entry that no version wrote. */
async function unreadable(fields: Record<string, string>) {
  const installation = await openStage({ scenario: done });
  const { redis, keys } = installation;
  const agent = await installation.task("work");
  await redis.hset(keys.agent(agent).log, "0", '{"v":1,"role":"user","run":"first","messages":[]}');
  await redis.hset(keys.agent(agent).record, fields);
  await installation.startWorker();
  return { installation, agent };
}

test("a run whose log cannot be read ends as failed at its third break, and the reply names the field", async () => {
  const { installation, agent } = await unreadable({ breaks: "2" });
  const reply = await installation.reply(agent);
  expect(reply).toMatchObject({ status: "failed", stop_reason: "worker_lost", turns: 0 });
  expect(reply.error).toMatch(/again and again.*\brun: \S/);
  expect(installation.offline.ledger).toEqual([]);
});

test("a log that takes no answer is not filled without end: each break costs one call, and the eighth is the last", async () => {
  const call = { type: "tool_use" as const, id: "toolu_stray", name: "glob", input: { pattern: "*" } };
  const stage = await openStage({ scenario: { turns: [{ content: [call] }], repeat: true } });
  const { redis, keys, offline } = stage;
  const agent = await stage.task("work");
  await redis.hset(keys.agent(agent).log, "1/toolu_stray/started", '{"v":1,"name":"another"}');
  await redis.hset(keys.agent(agent).record, { breaks: "7" });
  await stage.startWorker();
  const reply = await stage.reply(agent);
  expect(reply).toMatchObject({ status: "failed", stop_reason: "worker_lost" });
  expect(reply.error).toMatch(/again and again.*holds a part/s);
  expect(offline.ledger).toHaveLength(1);
  const [{ usage } = { usage: null }] = offline.ledger;
  const { tokens } = await stage.parent(agent.parentId).usage();
  expect(tokens).toBe(usage && totalTokens(usage));
});

test("what a break cost is charged with the break: the claim after it knows of no call", async () => {
  const call = { type: "tool_use" as const, id: "toolu_stray", name: "glob", input: { pattern: "*" } };
  const stage = await openStage({ scenario: { turns: [{ content: [call] }], repeat: true } });
  const { redis, keys, offline } = stage;
  const agent = await stage.task("work");
  await redis.hset(keys.agent(agent).log, "1/toolu_stray/started", '{"v":1,"name":"another"}');
  await stage.startWorker();
  await stage.recordWhere(agent, ({ breaks, status }) => breaks === 1 && status === "queued");
  const [{ usage } = { usage: null }] = offline.ledger;
  const { tokens } = await stage.parent(agent.parentId).usage();
  expect(tokens).toBe(usage && totalTokens(usage));
});

test("a run that breaks off after its agent was destroyed charges the answer that no commit took, and hands nothing back", async () => {
  const installation = await openStage({ scenario: done });
  const { store, offline } = installation;
  const agent = await installation.task("work");
  const settle: typeof store.settle = async () => {
    await installation.destroy(agent);
    await context.leases.held.get(agent.uid)?.renew();
    throw new Error("OOM command not allowed");
  };
  let releases = 0;
  const release: typeof store.release = (...input) => {
    releases += 1;
    return store.release(...input);
  };
  const context = runContextOf(installation, { store: { ...store, settle, release } });
  expect(await run(context, { address: agent, wake: 1, timesTaken: 1 })).toEqual({ status: "lost" });
  expect(releases).toBe(0);
  const [{ usage } = { usage: null }] = offline.ledger;
  const { tokens } = await installation.parent(agent.parentId).usage();
  expect(tokens).toBe(usage && totalTokens(usage));
});

test("an output whose check finds no process is checked by the next attempt: its answer is not bought again", async () => {
  const answer = [{ type: "text" as const, text: '{"age":36}' }];
  const stage = await openStage({ scenario: { turns: [{ content: answer }] } });
  const agent = await stage.task("work", { output_schema: { type: "object" } });
  const checkOutput = () => Promise.reject(new ToolFailure("no process", "unavailable"));
  await run(runContextOf(stage, { checkOutput }), { address: agent, wake: 1, timesTaken: 1 });
  expect(await stage.record(agent)).toMatchObject({ status: "queued", breaks: 1 });
  await stage.startWorker();
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", output: { age: 36 }, turns: 1 });
  expect(stage.offline.ledger).toHaveLength(1);
});

test("a run that has broken off many times rests for five minutes, not longer", async () => {
  const stage = await openStage({ scenario: done });
  const { store, redis, keys } = stage;
  const agent = await stage.task("work");
  await redis.hset(keys.agent(agent).record, { breaks: "6" });
  const rests: unknown[] = [];
  const refusing: typeof store = {
    ...store,
    settle: () => Promise.reject(new Error("OOM command not allowed")),
    release(address, input) {
      rests.push(input.delay_ms);
      return store.release(address, input);
    },
  };
  await run(runContextOf(stage, { store: refusing }), { address: agent, wake: 1, timesTaken: 1 });
  expect(rests).toEqual([300_000]);
});

test("an answer whose tools have no workspace, because the disk refuses one, is not bought again by the next worker", async () => {
  const call = { type: "tool_use" as const, name: "write_file", input: { file_path: "a.txt", content: "a" } };
  const stage = await openStage({ scenario: { turns: [{ content: [call] }, ...done.turns] } });
  const { redis, keys, offline } = stage;
  const agent = await stage.task("work");
  const workspaceRoot = join(stage.workspaceRoot, "no directory");
  await writeFile(workspaceRoot, "");
  const specs = kindsWith([writeFileTool()]);
  const refused = runContextOf(stage, { specs, workspaceRoot });
  await run(refused, { address: agent, wake: 1, timesTaken: 1 });
  expect(await stage.recordWhere(agent, () => true)).toMatchObject({ status: "queued", wake: 2 });
  await redis.hdel(keys.agent(agent).record, "not_before");
  await run(runContextOf(stage, { specs }), { address: agent, wake: 2, timesTaken: 1 });
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", turns: 2 });
  expect(offline.ledger).toHaveLength(2);
});

test("failures of the provider are no breaks: a run that has met many is handed back like any other", async () => {
  const { installation, agent } = await unreadable({ attempts: "40" });
  const released = await installation.recordWhere(agent, ({ breaks }) => breaks === 1);
  expect(released).toMatchObject({ status: "queued", attempts: 41, crashes_without_progress: 0 });
  expect(await installation.entries(agent)).toEqual([]);
});

/** A run that has lost its lease `before` times without progress, and loses it once more while Redis is frozen. */
async function losingAgain(before: number) {
  const server = await startPrivateRedis();
  const installation = await openStage({
    redis: server,
    scenario: { turns: [{ content: done.turns[0]?.content ?? [], latencyMs: 600_000 }] },
    timing: SHORT_TIMING,
  });
  const { redis, keys } = installation;
  const agent = await installation.task("work");
  await redis.hset(keys.agent(agent).record, { breaks: `${before}` });
  const lines: string[] = [];
  const logger = createLogger({ level: "error", destination: { write: (line) => void lines.push(line) } });
  await installation.startWorker({ logger });
  await until(() => installation.offline.inFlight === 1, { what: "the call" });
  server.freeze();
  await until(() => installation.offline.inFlight === 0, { what: "the end of the lease" });
  server.thaw();
  return { installation, agent, told: () => lines.filter((line) => line.includes("again and again")).length };
}

test("a run that loses its lease again before it has advanced is counted, waits, and is logged once", async () => {
  const [second, third] = await Promise.all([losingAgain(1), losingAgain(2)]);
  for (const { installation, agent, told, before } of [
    { ...second, before: 1 },
    { ...third, before: 2 },
  ]) {
    const released = await installation.recordWhere(agent, ({ status }) => status === "queued");
    expect(released).toMatchObject({ breaks: before + 1, crashes_without_progress: 0 });
    // Five seconds at first, doubling.
    const [seconds = 0] = await installation.redis.time();
    expect((released.not_before ?? 0) / 1_000 - Number(seconds)).toBeGreaterThan(before * 5 - 4);
    expect(told()).toBe(before === 1 ? 1 : 0);
    expect(await installation.entries(agent)).toEqual([]);
  }
});

test("a run that loses its lease for the eighth time before it has advanced ends typed, and its parent reads why", async () => {
  const { installation, agent } = await losingAgain(7);
  const reply = await installation.reply(agent);
  expect(reply).toMatchObject({ status: "failed", stop_reason: "worker_lost", turns: 0 });
  expect(reply.error).toMatch(/again and again.*its lease was lost/s);
  expect(await installation.entries(agent)).toHaveLength(1);
});

test("a destroyed run writes nothing more: its worker asks once, and neither commits nor releases", async () => {
  const server = await startPrivateRedis();
  const call = { content: [{ type: "tool_use" as const, name: "wait", input: {} }] };
  const installation = await openStage({
    redis: server,
    scenario: { turns: [call, ...done.turns] },
  });
  const started = latch();
  const wait = defineTool({
    name: "wait",
    description: "Waits until it is stopped.",
    input: z.object({}),
    async run(_input, { signal }) {
      started.open();
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return "stopped";
    },
  });
  const worker = await installation.startWorker({ tools: [wait] });
  const agent = await installation.task("work");
  await started.opened;
  const seen: string[] = [];
  const monitor = await openMonitor(server.url, (_at, [command = "", script = ""]) => {
    const name = /^eval(?:sha)?$/i.test(command) && VERBS.find((verb) => isScriptOf(verb, script));
    if (name) seen.push(name);
  });
  closeAtEnd(monitor.stop);
  await installation.destroy(agent);
  await until(() => worker.active().length === 0);
  await monitor.caughtUp();
  expect(seen).toEqual(["settle", "renew"]);
});

/** What a worker may write about a run. */
const VERBS: readonly VerbName[] = ["append", "release", "settle", "renew", "ask"];

/** A script that a connection uses for the first time is sent whole, else by its digest. */
function isScriptOf(verb: VerbName, script: string): boolean {
  const digest = createHash("sha1").update(luaSource(verb)).digest("hex");
  return script === digest || script.includes(`-- ${verb}: `);
}
