/**
 * Guarantee: a log that has lost entries (a failover can do that) hangs nobody: its run still ends in one reply. What the lost
 * answers cost is charged by the worker that had committed them.
 */
import { expect, test } from "vitest";
import { z } from "zod";
import { totalTokens } from "../../../src/shared/protocol/content.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { latch } from "../../helpers/latch.ts";
import { keysLike } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage } from "../../stage/stage.ts";

const list = (pattern: string) => ({
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern } }],
});
const done = { content: [{ type: "text" as const, text: "done" }] };
const scenario = { turns: [list("a"), list("b"), done] };

test("a run whose newest turns were lost under its holder is handed back and goes on from what is left", async () => {
  const [started, goesOn] = [latch(), latch()];
  const hold = defineTool({
    name: "hold",
    description: "Waits until it is told to go on.",
    input: z.object({}),
    async run() {
      started.open();
      await goesOn.opened;
      return "held";
    },
  });
  const holds = { content: [{ type: "tool_use" as const, name: "hold", input: {} }] };
  const installation = await openStage({ scenario: { turns: [list("a"), holds, done, done] } });
  const { redis, keys, offline } = installation;
  const worker = await installation.startWorker({ tools: [hold] });
  const agent = await installation.task("look", { keep_alive: true });
  const { log } = keys.agent(agent);
  const messageOf = (key: string) => Number(key.split("/")[0]);
  await started.opened;
  const newest = (await redis.hkeys(log)).filter((key) => messageOf(key) > 1);
  expect(newest).toHaveLength(2);
  await redis.hdel(log, ...newest);
  goesOn.open();
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", summary: "done", turns: 3 });
  const messages = new Set((await redis.hkeys(log)).map(messageOf));
  expect([...messages].sort()).toEqual([0, 1, 3, 5]);
  const bought = offline.ledger.map(({ idempotency_key }) => idempotency_key?.split(".")[1]);
  expect(bought).toEqual(["1", "3", "3", "5"]);
  await until(() => worker.active().length === 0);
  await installation.send(agent, "again");
  const replies = await until(async () => {
    const entries = await installation.entries(agent);
    return entries.length === 2 && entries;
  });
  expect(replies).toMatchObject([
    { run: 1, status: "succeeded" },
    { run: 2, status: "succeeded", turns: 1 },
  ]);
});

test.for([
  ["the parent's message", "0", { status: "failed", stop_reason: "model_error" }],
  ["a turn", "1", { status: "succeeded", stop_reason: "end_turn" }],
] as const)("a run that changes hands after its log has lost %s", async ([, entry, ending]) => {
  const installation = await openStage({
    scenario: { turns: [list("a"), list("b"), { ...done, latencyMs: 600_000 }] },
    timing: SHORT_TIMING,
  });
  const { redis, keys, offline } = installation;
  const first = await installation.spawnWorker();
  const agent = await installation.task("look", { keep_alive: true });
  const { log } = keys.agent(agent);
  const isLastCall = async () => (await redis.hexists(log, "3")) === 1 && offline.inFlight === 1;
  await until(isLastCall, { what: "the last call" });
  await redis.hdel(log, entry);
  await first.kill();
  offline.setScenario(scenario);
  await installation.startWorker();
  expect(await installation.reply(agent)).toMatchObject(ending);
  expect(await installation.entries(agent)).toHaveLength(1);
});

/** Keeps all that the agent's parent has in Redis. What is written later is lost when it is brought back: a replica that lagged takes over. */
async function replicaOf({ redis, prefix }: Stage, { tenant, parentId }: Agent) {
  const pattern = `${prefix}:{${tenant}/${parentId}}*`;
  const names = await keysLike(redis, pattern);
  const dumps = await Promise.all(names.map((name) => redis.dumpBuffer(name)));
  return async function takeOver() {
    const all = redis.multi().del(...(await keysLike(redis, pattern)));
    for (const [i, name] of names.entries()) all.restore(name, 0, dumps[i] ?? "");
    for (const [error] of (await all.exec()) ?? []) expect(error).toBeNull();
  };
}

/** A tool that holds its run at two places until it is told to go on. */
function gate() {
  const places = { early: { reached: latch(), left: latch() }, late: { reached: latch(), left: latch() } };
  const tool = defineTool({
    name: "hold",
    description: "Waits until it is told to go on.",
    input: z.object({ at: z.enum(["early", "late"]) }),
    async run({ at }) {
      places[at].reached.open();
      await places[at].left.opened;
      return "held";
    },
  });
  return { ...places, tool };
}

const holdAt = (at: "early" | "late") => ({
  content: [{ type: "tool_use" as const, name: "hold", input: { at } }],
});
const priced = (turn: object, input_tokens: number) => ({ ...turn, usage: { input_tokens } });
const spend = (unit: number) => ({
  turns: [
    priced(holdAt("early"), unit),
    priced(list("b"), 2 * unit),
    priced(holdAt("late"), 4 * unit),
    priced(done, 8 * unit),
  ],
});

/** What the parent has used, what the model server billed, and how many purchases were charged by themselves. */
async function account({ redis, keys, offline, parent }: Stage, agent: Agent) {
  const billed = offline.ledger.map(({ usage }) => (usage ? totalTokens(usage) : 0));
  const marks = await keysLike(redis, `${keys.parent(agent).charged("")}*`);
  return {
    used: (await parent(agent.parentId).usage()).tokens,
    billed: billed.reduce((sum, tokens) => sum + tokens, 0),
    charged: marks.length,
  };
}

test.for([["goes on"], ["is destroyed"]] as const)(
  "the answers that a failover took from a run which then %s are charged once each, and no other",
  async ([what]) => {
    const { early, late, tool } = gate();
    const stage = await openStage({ scenario: spend(1_000) });
    const worker = await stage.startWorker({ tools: [tool] });
    const agent = await stage.task("look");
    await early.reached.opened;
    const takeOver = await replicaOf(stage, agent);
    early.left.open();
    await late.reached.opened;
    await takeOver();
    if (what === "is destroyed") await stage.destroy(agent);
    late.left.open();
    const calls = what === "is destroyed" ? 3 : 6;
    expect(await stage.reply(agent)).toMatchObject({ turns: what === "is destroyed" ? 1 : 4 });
    await until(() => worker.active().length === 0);
    expect(stage.offline.ledger).toHaveLength(calls);
    const { used, billed, charged } = await account(stage, agent);
    expect(used).toBe(billed);
    expect(charged).toBe(2);
  },
);

test("the answers of a claim that a failover took are charged once each, also when another worker has bought others in their place", async () => {
  const { early, late, tool } = gate();
  // The next look comes when the lost lease would have ended.
  const timing = { ...SHORT_TIMING, leaseMs: 3_000 };
  const stage = await openStage({ scenario: spend(1_000), timing });
  const agent = await stage.task("look");
  const takeOver = await replicaOf(stage, agent);
  const worker = await stage.startWorker({ tools: [tool] });
  await early.reached.opened;
  early.left.open();
  await late.reached.opened;
  stage.offline.setScenario(spend(1_100));
  await takeOver();
  late.left.open();
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", turns: 4 });
  await until(() => worker.active().length === 0);
  expect(stage.offline.ledger).toHaveLength(7);
  const { used, billed, charged } = await account(stage, agent);
  expect(used).toBe(billed);
  expect(charged).toBe(3);
});
