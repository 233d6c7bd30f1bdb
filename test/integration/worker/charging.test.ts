/**
 * Guarantee: every purchase counts. What a call cost that a destroy, a takeover or a crash cut off stands in the parent's
 * usage, once. `DESTROYS` (default 40): so many runs are destroyed at a random moment; `KILLS` (default 10): so many lose their
 * worker to `kill -9`, ten at a time; `LONE_KILLS` (default 2): so many lose it alone. `JUDGE_TIMES=1`: the runs that are destroyed
 * must be charged to the token, as they are where nothing else runs.
 */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import { totalTokens, type Usage } from "../../../src/shared/protocol/content.ts";
import { costUsd, priceOf } from "../../../src/shared/protocol/usage.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { BILL_GRACE_MS } from "../../../src/worker/run/call-model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { ARE_TIMES_JUDGED } from "../../helpers/figures.ts";
import { endLeases } from "../../helpers/leases.ts";
import { seeded } from "../../helpers/seeded.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage, type Stage } from "../../stage/stage.ts";
import { messageStart, type Script, send, startProvider } from "../../unit/worker/model/scripted-provider.ts";

const DESTROYS = Number(process.env.DESTROYS ?? 40);
const KILLS = Number(process.env.KILLS ?? 10);
const LONE_KILLS = Number(process.env.LONE_KILLS ?? 2);
const SIDE_BY_SIDE = 10;
const text = (words: string) => ({ content: [{ type: "text" as const, text: words }] });
/** The first call is never answered, the second one is. */
const silence = { stream: { stallAfterChunks: 0 } };
const look = (latencyMs: number) => ({
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }],
  latencyMs,
});

const tokensOf = (usages: readonly (Usage | null)[]) =>
  usages.reduce((sum, usage) => sum + (usage ? totalTokens(usage) : 0), 0);

/** Waits until no worker is at anything; what was to be booked is booked by then. */
async function quiet(stage: Stage, workers: readonly { active(): readonly unknown[] }[]): Promise<void> {
  await until(() => stage.offline.inFlight === 0 && workers.every((worker) => worker.active().length === 0));
}

/** What a worker says that its calls cost, in tokens: the bills, and the prompts of calls that it cut off before theirs came. */
async function reckoned(worker: { metrics(): Promise<{ text: string } | undefined> }): Promise<number> {
  const { text = "" } = (await worker.metrics()) ?? {};
  const samples = text.matchAll(/^subagent_tokens_total\{.*\} (\d+)$/gm);
  return [...samples].reduce((sum, [, tokens]) => sum + Number(tokens), 0);
}

test(`${DESTROYS} runs destroyed at a random moment: the parent used exactly what the model server billed`, {
  timeout: 300_000 + DESTROYS * 500,
}, async () => {
  const stage = await openStage({ scenario: { turns: [look(30), look(30), look(30), text("done")] } });
  const worker = await stage.startWorker({ concurrency: SIDE_BY_SIDE, metrics: true });
  const parent = stage.parent("spender");
  const random = seeded(3);
  for (let round = 0; round < DESTROYS / SIDE_BY_SIDE; round++) {
    const runs = Array.from({ length: SIDE_BY_SIDE }, async () => {
      const task = parent.task({ name: "spender", prompt: "spend", model: "claude-haiku-4-5" });
      const { agent_id } = await task.started;
      await sleep(random.between(0, 400));
      await parent.destroy(agent_id);
      await task;
    });
    await Promise.all(runs);
    await quiet(stage, [worker]);
  }
  const { ledger } = stage.offline;
  const used = await parent.usage();
  const billed = tokensOf(ledger.map(({ usage }) => usage));
  const estimated = (await reckoned(worker)) - billed;
  const cutOff = ledger.filter(({ status }) => status === "aborted").length;
  process.stdout.write(
    `${DESTROYS} destroys, ${ledger.length} calls: ${billed} tokens billed, ${used.tokens} used, ${cutOff} calls without a bill\n`,
  );
  expect(used.tokens).toBe(billed + estimated);
  // On a machine that stands still a call may be cut off before its bill has come, or before the server has read it: then
  // its prompt is charged. Where nothing else runs there is none.
  const largest = Math.max(...ledger.map(({ usage }) => tokensOf([usage])));
  expect(estimated).toBeGreaterThanOrEqual(0);
  expect(estimated).toBeLessThanOrEqual(ARE_TIMES_JUDGED ? 0 : 2 * (cutOff + 1) * largest);
  expect(used.cost_usd).toBeGreaterThan(0);
});

test("a destroyed call whose answer would take long is cut off, and its prompt is charged and counted, as no refusal", async () => {
  const stage = await openStage({ scenario: { turns: [look(0), { ...text("late"), latencyMs: 60_000 }] } });
  const worker = await stage.startWorker({ metrics: true });
  const parent = stage.parent("cut-off");
  const task = parent.task("x".repeat(4_000));
  const { agent_id } = await task.started;
  await until(() => stage.offline.ledger.length === 1 && stage.offline.inFlight === 1);
  const [first] = stage.offline.ledger;
  const known = tokensOf([first?.usage ?? null]);
  await parent.destroy(agent_id);
  expect(await task).toMatchObject({ stop_reason: "destroyed", tokens: known });
  await quiet(stage, [worker]);
  const { tokens } = await parent.usage();
  expect(tokens).toBeGreaterThan(1.8 * known);
  expect(tokens).toBeLessThan(3 * known);
  expect(await reckoned(worker)).toBe(tokens);
  // The provider has refused nothing: it is this side that ended the call.
  expect((await worker.metrics())?.text).not.toMatch(/^subagent_model_refusals_total\{/m);
});

test("a destroyed call whose answer comes a moment later is charged as it was billed", async () => {
  // The moment for which the worker waits is long here, so that no slow machine misses it.
  const timeout: Clock["timeout"] = (ms, due) => systemClock.timeout(ms === BILL_GRACE_MS ? 60_000 : ms, due);
  const usage = { input_tokens: 12_345, output_tokens: 67 };
  const answers: (() => void)[] = [];
  const provider = await startProvider((response) => {
    const answer = {
      id: "m",
      type: "message",
      role: "assistant",
      model: "m",
      stop_reason: "end_turn",
      usage,
    };
    const body = JSON.stringify({ ...answer, content: [{ type: "text", text: "late" }] });
    answers.push(() => response.writeHead(200, { "content-type": "application/json" }).end(body));
  });
  const stage = await openStage();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
  closeAtEnd(() => model.stop());
  const worker = await stage.startWorker({ model, clock: { ...systemClock, timeout } });
  const parent = stage.parent("late");
  const task = parent.task("spend");
  await until(() => answers.length === 1);
  await parent.destroy((await task.started).agent_id);
  expect(await task).toMatchObject({ stop_reason: "destroyed", tokens: 0 });
  // By then a call that is cut off at once is cut off.
  await sleep(100);
  for (const answer of answers) answer();
  await until(() => worker.active().length === 0);
  expect(await parent.usage()).toMatchObject({ tokens: 12_412 });
});

test("the call that a killed worker had begun is charged by the next one, within one call", async () => {
  const stage = await openStage({
    scenario: { turns: [look(0), { ...text("done"), failures: [silence] }] },
    timing: LONG_TIMING,
  });
  const victim = await stage.spawnWorker();
  const task = stage.parent("bereft").task("x".repeat(4_000));
  await until(() => stage.offline.ledger.length === 1 && stage.offline.inFlight === 1);
  await victim.kill();
  await endLeases(stage);
  const heir = await stage.startWorker({ metrics: true });
  const reply = await task;
  expect(reply).toMatchObject({ status: "succeeded", turns: 2 });
  await quiet(stage, [heir]);
  const { tokens } = await stage.parent("bereft").usage();
  expect(await reckoned(heir)).toBe(tokens - tokensOf([stage.offline.ledger[0]?.usage ?? null]));
  const served = stage.offline.ledger.filter(({ status }) => status === "served").map(({ usage }) => usage);
  expect(reply.tokens).toBe(tokensOf(served));
  const lost = tokens - reply.tokens;
  expect(lost).toBeGreaterThan(500);
  expect(lost).toBeLessThan(2 * tokensOf(served.slice(0, 1)));
});

test("the call that a killed worker had begun is charged also where the next one cannot write its trace", async () => {
  const stage = await openStage({
    scenario: { turns: [{ ...text("done"), failures: [silence] }] },
    timing: LONG_TIMING,
  });
  const victim = await stage.spawnWorker();
  const agent = await stage.task("work");
  await until(() => stage.offline.inFlight === 1);
  await victim.kill();
  await endLeases(stage);
  const taken = join(stage.workspaceRoot, agent.tenant);
  await rm(taken, { recursive: true, force: true });
  await writeFile(taken, "a file where the directory was");
  await stage.startWorker({ trace: "full" });
  await stage.recordWhere(agent, ({ breaks, status }) => breaks === 1 && status === "queued");
  expect((await stage.parent(agent.parentId).usage()).tokens).toBeGreaterThan(0);
});

test("the call that a killed worker had begun has the price of the model that answered last, not of the first of its chain", async () => {
  const limited = { status: 429, headers: { "retry-after": "30" } };
  const stage = await openStage({
    scenario: {
      turns: [
        { ...look(0), failures: [limited] },
        { ...text("done"), failures: [silence] },
      ],
    },
    timing: LONG_TIMING,
  });
  const victim = await stage.spawnWorker();
  const parent = stage.parent("bereft");
  const chain = { model: "claude-opus-4-5", fallback_models: ["claude-haiku-4-5"] };
  const task = parent.task({ prompt: "x".repeat(4_000), ...chain });
  await until(() => stage.offline.ledger.length === 2 && stage.offline.inFlight === 1);
  await victim.kill();
  await endLeases(stage);
  const heir = await stage.startWorker();
  const reply = await task;
  await quiet(stage, [heir]);
  const { usage, cost_usd } = await parent.usage();
  expect(totalTokens(usage)).toBeGreaterThan(reply.tokens);
  const price = priceOf("claude-haiku-4-5");
  expect(cost_usd).toBeCloseTo(price ? costUsd(usage, price) : 0, 5);
});

test(`${KILLS} runs whose worker is killed at a random moment: what was billed is charged, and at most one call more a kill`, {
  timeout: 300_000 + KILLS * 2_000,
}, async () => {
  const stage = await openStage({
    scenario: { turns: [look(100), { ...text("done"), latencyMs: 300 }], repeat: true },
    timing: LONG_TIMING,
  });
  const parent = stage.parent("bereft");
  const random = seeded(5);
  for (let round = 0; round < KILLS / SIDE_BY_SIDE; round++) {
    const victim = await stage.spawnWorker();
    const before = stage.offline.ledger.length;
    const tasks = Array.from({ length: SIDE_BY_SIDE }, () =>
      parent.task({ name: "bereft", prompt: "spend" }),
    );
    const begun = () => stage.offline.ledger.length + stage.offline.inFlight;
    await until(() => begun() >= before + SIDE_BY_SIDE);
    await sleep(random.between(0, 300));
    await victim.kill();
    await endLeases(stage);
    const heir = await stage.startWorker({ concurrency: SIDE_BY_SIDE });
    await Promise.all(tasks);
    await quiet(stage, [heir]);
    await heir.stop();
  }
  const { ledger } = stage.offline;
  const billed = tokensOf(ledger.map(({ usage }) => usage));
  const { tokens } = await parent.usage();
  const largest = Math.max(...ledger.map(({ usage }) => tokensOf([usage])));
  process.stdout.write(
    `${KILLS} kills, ${ledger.length} calls: ${billed} tokens billed, ${tokens} charged, ${largest} the largest call\n`,
  );
  expect(tokens).toBeGreaterThanOrEqual(billed - KILLS * largest);
  expect(tokens).toBeLessThanOrEqual(billed + KILLS * largest);
});

test(`${LONE_KILLS} kills of a worker with one run: each costs one call at most beyond what was billed, and leaves out one at most`, {
  timeout: 120_000 + LONE_KILLS * 10_000,
}, async () => {
  const stage = await openStage({
    scenario: { turns: [look(100), { ...text("done"), latencyMs: 300 }] },
    timing: LONG_TIMING,
  });
  const { offline } = stage;
  const random = seeded(7);
  const apart: number[] = [];
  for (let round = 0; round < LONE_KILLS; round++) {
    const victim = await stage.spawnWorker();
    const before = offline.ledger.length;
    // What a parent used is what its one run and its one kill cost.
    const parent = stage.parent(`bereft-${round}`);
    const task = parent.task("spend");
    await until(() => offline.ledger.length > before || offline.inFlight > 0);
    await sleep(random.between(0, 350));
    await victim.kill();
    await endLeases(stage);
    // Of the victim's kind: with the same tools its calls are as large.
    const heir = await stage.spawnWorker();
    expect(await task).toMatchObject({ status: "succeeded", turns: 2 });
    await heir.kill("SIGTERM");
    const calls = offline.ledger.slice(before);
    const tokens = calls.map(({ usage }) => tokensOf([usage]));
    const difference = (await parent.usage()).tokens - tokens.reduce((sum, each) => sum + each, 0);
    apart.push(difference);
    // The prompt that is charged is counted by its bytes, and may come out a few tokens larger than the server counts it.
    const largest = Math.max(...tokens) * 1.02;
    expect(Math.abs(difference), `kill ${round}`).toBeLessThanOrEqual(largest);
    // The server bills no call that it did not answer; its prompt is charged.
    if (calls.some(({ status }) => status === "aborted"))
      expect(difference, `kill ${round}`).toBeGreaterThan(0);
  }
  process.stdout.write(
    `${LONE_KILLS} kills of a run alone: charged less billed ${apart.join(", ")} tokens\n`,
  );
});

test.each([
  ["says nothing", undefined],
  ["says what cannot be", { input_tokens: -7, output_tokens: 1e300 }],
])(
  "a provider that %s of what its answers cost: prompt and answer are estimated, and the limit of tokens holds",
  async (_, usage) => {
    const call = { type: "tool_use", id: "t1", name: "glob", input: { pattern: "*".repeat(400) } };
    const answer = { id: "m", type: "message", role: "assistant", model: "m", content: [call], usage };
    const provider = await startProvider((response) => {
      const body = JSON.stringify({ ...answer, stop_reason: "tool_use" });
      response.writeHead(200, { "content-type": "application/json" }).end(body);
    });
    const stage = await openStage();
    const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
    closeAtEnd(() => model.stop());
    await stage.startWorker({ model });
    const parent = stage.parent("unbilled");
    const reply = await parent.task({ prompt: "x".repeat(4_000), limits: { max_total_tokens: 3_000 } });
    expect(reply).toMatchObject({ status: "partial", stop_reason: "max_total_tokens" });
    // A thousand tokens of prompt and a hundred of each answer; the third call is the one that crosses the limit.
    expect(reply.usage.output_tokens).toBeGreaterThan(100 * reply.turns);
    expect(reply.tokens).toBeGreaterThan(1_000 * reply.turns);
    expect((await parent.usage()).tokens).toBe(reply.tokens);
  },
);

const unbilled: [title: string, script: Script][] = [
  [
    "a stream that breaks off",
    (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(messageStart({ usage: undefined }), () => response.destroy());
    },
  ],
  [
    "a message without a stop reason",
    (response) => send(response, [], { stop_reason: null, usage: undefined }),
  ],
];

test.each(unbilled)(
  "a provider that says nothing of what its answers cost: %s is charged by its prompt, and bought in vain five times at most",
  async (_, script) => {
    const provider = await startProvider((response, request) => {
      if (provider.received.length <= 5) script(response, request);
      else send(response, [{ type: "text", text: "the sixth" }]);
    });
    const stage = await openStage();
    const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
    closeAtEnd(() => model.stop());
    await stage.startWorker({ model });
    const parent = stage.parent("unbilled");
    const reply = await parent.task("x".repeat(4_000));
    expect(reply).toMatchObject({ status: "failed", stop_reason: "model_error" });
    expect(provider.received).toHaveLength(5);
    expect(reply.tokens).toBeGreaterThan(5 * 1_000);
    expect((await parent.usage()).tokens).toBe(reply.tokens);
  },
);
