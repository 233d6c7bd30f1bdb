/**
 * Guarantee: what agents, parents and tenants spend together stays within their budgets, across workers and crashes: no agent
 * goes further beyond one than the call with which it hands back.
 */
import { describe, expect, test } from "vitest";
import type { LedgerEntry } from "../../../src/offline/server.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { totalTokens } from "../../../src/shared/protocol/content.ts";
import { CEILING, SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";
import type { Reply } from "../../../src/shared/protocol/reply.ts";
import { type BudgetBook, budgetsOf, createBudgetBook, readSpent } from "../../../src/shared/redis/budget.ts";
import { run } from "../../../src/worker/run/run.ts";
import { testParent } from "../../helpers/parents.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage, SHORT_TIMING } from "../../stage/stage.ts";

const text = (words: string) => ({ content: [{ type: "text" as const, text: words }] });
const usage = {
  input_tokens: 900,
  output_tokens: 100,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
};
const CALL_TOKENS = 1_000;
const endless = {
  turns: Array.from({ length: 25 }, (_, i) => ({
    content: [
      { type: "text" as const, text: `Step ${i}.` },
      { type: "tool_use" as const, name: "glob", input: { pattern: `${i}*` } },
    ],
    usage,
    latencyMs: 20,
  })),
  hand_back: { ...text("What I found."), usage },
};
/** The same, and no two calls of a run cost the same. */
const unequal = {
  ...endless,
  turns: endless.turns.map((turn, i) => ({ ...turn, usage: { ...usage, input_tokens: 900 - i } })),
};
const tokensOf = (replies: readonly Reply[]) => replies.reduce((sum, reply) => sum + reply.tokens, 0);
const isPrompted = (name: string) => Array.from({ length: 10 }, (_, i) => ({ name, prompt: `work ${i}` }));

/**
 * What the calls came to whose answers were committed, by uid. A message that was bought again had been lost on its way: of its
 * purchases the one of the last claim counts.
 */
function committedTokens(served: readonly LedgerEntry[]): Map<string, number> {
  const last = new Map<string, { uid: string; epoch: number; tokens: number }>();
  for (const { idempotency_key, usage: used } of served) {
    const [uid = "", message, epoch] = (idempotency_key ?? "").split(".");
    const name = `${uid}.${message}`;
    if (used && Number(epoch) > (last.get(name)?.epoch ?? -1))
      last.set(name, { uid, epoch: Number(epoch), tokens: totalTokens(used) });
  }
  const sums = new Map<string, number>();
  for (const { uid, tokens } of last.values()) sums.set(uid, (sums.get(uid) ?? 0) + tokens);
  return sums;
}

test("ten agents on four workers, one of which is killed: at most one call each beyond the parent's budget, and each reply says exactly what its committed calls cost", async () => {
  const stage = await openStage({ scenario: unequal, timing: SHORT_TIMING });
  for (let i = 0; i < 3; i++) await stage.startWorker({ concurrency: 3 });
  const victim = await stage.spawnWorker({ concurrency: 3 });
  const budget = 60 * CALL_TOKENS;
  const parent = stage.parent("bounded", { budgets: { parent: { max_total_tokens: budget } } });
  const replies = parent.taskAll(isPrompted("bounded"));
  await until(() => stage.offline.ledger.length > 20);
  await victim.kill();
  const all = await replies;
  const served = stage.offline.ledger.filter(({ status }) => status === "served");
  const spent = served.reduce((sum, { usage: used }) => sum + (used ? totalTokens(used) : 0), 0);
  expect(spent).toBeLessThanOrEqual(budget + 10 * CALL_TOKENS);
  expect(spent).toBeGreaterThan(budget - 15 * CALL_TOKENS);
  for (const reply of all) {
    expect(reply).toMatchObject({
      status: "partial",
      stop_reason: "max_total_tokens",
      summary: "What I found.",
      error: "The budget of its parent has no room for another call.",
    });
  }
  const said = all.map(({ reply_id, tokens }) => [reply_id.split(".")[0], tokens] as const);
  expect(new Map(said)).toEqual(committedTokens(served));
  // What was bought and not committed, by the killed worker or one that lost a lease, is in no reply, and charged to the parent.
  const used = await parent.usage();
  expect(used.tokens).toBeGreaterThanOrEqual(tokensOf(all));
  // Of a call that was lost on its way, as the three that the killed worker had under way, only the prompt is known.
  const lost = stage.offline.ledger.length - all.reduce((sum, { turns }) => sum + turns, 0);
  expect(Math.abs(used.tokens - spent)).toBeLessThanOrEqual(Math.max(3, lost) * CALL_TOKENS);
});

describe("a budget", () => {
  test("of a tenant binds all its parents, and an agent that comes when it is spent buys nothing; its reply and the log name it", async () => {
    const stage = await openStage({ scenario: endless });
    const lines: Record<string, unknown>[] = [];
    const logger = createLogger({ destination: { write: (line) => void lines.push(JSON.parse(line)) } });
    await stage.startWorker({ logger });
    const budgets = { tenant: { max_total_tokens: 6 * CALL_TOKENS, window_ms: 3_600_000 } };
    const client = stage.client({ budgets });
    const first = await stage.parent("a", { client }).task("work");
    expect(first).toMatchObject({ status: "partial", stop_reason: "max_total_tokens" });
    expect(first.tokens).toBeLessThanOrEqual(7 * CALL_TOKENS);
    const calls = stage.offline.ledger.length;
    // Its own budget is not the one that is used up.
    const own = { budgets: { agent: { max_total_tokens: 5 * CALL_TOKENS } } };
    const b = stage.parent("b", { client, ...own });
    const refused = await b.task("work");
    const error = "The budget of its tenant has no room for another call.";
    expect(refused).toMatchObject({ stop_reason: "max_total_tokens", turns: 0, tokens: 0, error });
    const [uid] = refused.reply_id.split(".");
    expect(stage.offline.ledger.length).toBe(calls);
    const told = { budget: "tenant/default/3600000", over: "max_total_tokens", msg: "Budget used up" };
    expect(lines.filter((line) => line.uid === uid && "budget" in line)).toEqual([
      expect.objectContaining(told),
    ]);
  });

  test("tells the model once, with the first call that takes it to four fifths", async () => {
    const stage = await openStage({ scenario: endless });
    await stage.startWorker();
    const parent = stage.parent("nudged", { budgets: { agent: { max_total_tokens: 10 * CALL_TOKENS } } });
    const agent = await parent.spawn({ name: "nudged", keep_alive: true });
    await parent.send(agent.agent_id, "work");
    await parent.waitAny([agent.agent_id]);
    const uid = (await stage.store.uidOf({ tenant: "default", parentId: "nudged" }, agent.agent_id)) ?? "";
    const log = await stage.redis.hgetall(
      stage.keys.agent({ tenant: "default", parentId: "nudged", uid }).log,
    );
    const notices = Object.entries(log).filter(([key]) => key.endsWith("/notice"));
    // Seven calls took 7,000 of 10,000 tokens, and the eighth one, for message 15, was expected to take a little more than 1,000.
    expect(notices).toEqual([["14/notice", expect.stringMatching(/Most of the budget/)]]);
  });

  test("in USD is refused for a model whose price is not known, and a parent may only narrow the operator's", async () => {
    const stage = await openStage({ scenario: endless });
    const client = stage.client({ budgets: { parent: { max_total_tokens: 5_000 } } });
    const parent = stage.parent("narrow", { client, budgets: { parent: { max_total_tokens: 9_000 } } });
    await parent.spawn({ name: "a" });
    const uid = (await stage.store.uidOf({ tenant: "default", parentId: "narrow" }, "a")) ?? "";
    const record = await stage.store.record({ tenant: "default", parentId: "narrow", uid });
    expect(record?.spec.budgets).toEqual({ parent: { max_total_tokens: 5_000 } });
    const dear = stage.parent("dear", { budgets: { agent: { max_cost_usd: 1 } } });
    await expect(dear.spawn({ name: "a", model: "gpt" })).rejects.toMatchObject({ code: "unknown_price" });
  });
});

test("a reservation that is repeated counts once, one that is settled for what it took", async () => {
  const stage = await openStage();
  const book = createBudgetBook(stage.redis, stage.keys, SHORT_TIMING);
  const budget = { name: "tenant/rolling", of: "tenant" as const, maxTokens: 100, windowMs: 3_600_000 };
  const reserve = (id: string, tokens: number, forced = false) =>
    book.reserve([budget], id, { tokens, costUsd: 0.5 }, forced);
  expect(await reserve("a", 60)).toEqual({ status: "granted", used: 0.6 });
  expect(await reserve("a", 60)).toEqual({ status: "granted", used: 0.6 });
  expect(await reserve("b", 41)).toMatchObject({ status: "refused", over: "max_total_tokens" });
  await book.settle([budget], "a", { tokens: 50, costUsd: 0.25 });
  await book.settle([budget], "a", { tokens: 0, costUsd: 0 });
  expect(await reserve("b", 41)).toEqual({ status: "granted", used: 0.91 });
  expect(await reserve("c", 41, true)).toMatchObject({ status: "granted", used: 1.32 });
  expect(await readSpent(stage.redis, stage.keys, budget)).toEqual({ tokens: 132, costUsd: 1.25 });
});

test("a rolling window forgets what is older, reservations too: a call of then gives nothing back", async () => {
  const stage = await openStage();
  const book = createBudgetBook(stage.redis, stage.keys, SHORT_TIMING);
  const budget = { name: "tenant/rolling", of: "tenant" as const, maxTokens: 100, windowMs: 600 };
  const reserve = (id: string) => book.reserve([budget], id, { tokens: 90, costUsd: 0 }, false);
  expect(await reserve("a")).toMatchObject({ status: "granted" });
  await until(async () => (await readSpent(stage.redis, stage.keys, budget)).tokens === 0);
  expect(await reserve("b")).toMatchObject({ status: "granted", used: 0.9 });
  await book.settle([budget], "a", { tokens: 0, costUsd: 0 });
  expect(await readSpent(stage.redis, stage.keys, budget)).toEqual({ tokens: 90, costUsd: 0 });
  expect(await stage.redis.hlen(stage.keys.budget("tenant/rolling"))).toBe(2);
});

test("a call that is never settled stays spent, its reservation ends by itself, and a settling after that changes nothing", async () => {
  const stage = await openStage();
  const book = createBudgetBook(stage.redis, stage.keys, SHORT_TIMING);
  const budget = { name: "agent/t/p/u", of: "agent" as const, maxTokens: 100 };
  const reserve = (id: string) => book.reserve([budget], id, { tokens: 60, costUsd: 0.5 }, false);
  expect(await reserve("crashed")).toMatchObject({ status: "granted" });
  const reservation = stage.keys.reservation("agent/t/p/u/crashed");
  const endsInMs = await stage.redis.pttl(reservation);
  // No call that still runs loses its own.
  expect(endsInMs).toBeGreaterThan(CEILING.max_duration_ms);
  expect(endsInMs).toBeLessThanOrEqual(2 * CEILING.max_duration_ms);
  await stage.redis.pexpire(reservation, 1);
  await until(async () => (await stage.redis.exists(reservation)) === 0);
  await book.settle([budget], "crashed", { tokens: 0, costUsd: 0 });
  expect(await readSpent(stage.redis, stage.keys, budget)).toEqual({ tokens: 60, costUsd: 0.5 });
  expect(await reserve("next")).toMatchObject({ status: "refused", over: "max_total_tokens" });
});

test("a call that is settled leaves nothing but what is spent, and gives nothing back to a budget that an operator has emptied", async () => {
  const stage = await openStage();
  const book = createBudgetBook(stage.redis, stage.keys, SHORT_TIMING);
  const budget = { name: "agent/t/p/u", of: "agent" as const, maxTokens: 100 };
  const reserve = (id: string) => book.reserve([budget], id, { tokens: 60, costUsd: 0 }, false);
  await reserve("a");
  await book.settle([budget], "a", { tokens: 10, costUsd: 0 });
  expect(await stage.redis.exists(stage.keys.reservation("agent/t/p/u/a"))).toBe(0);
  await reserve("b");
  await stage.redis.del(stage.keys.budget(budget.name));
  await book.settle([budget], "b", { tokens: 0, costUsd: 0 });
  expect(await readSpent(stage.redis, stage.keys, budget)).toEqual({ tokens: 0, costUsd: 0 });
  expect(await reserve("b")).toEqual({ status: "granted", used: 0.6 });
});

test("what another version has written into a budget counts for nothing", async () => {
  const stage = await openStage();
  const book = createBudgetBook(stage.redis, stage.keys, SHORT_TIMING);
  const budget = { name: "tenant/old", of: "tenant" as const, maxTokens: 100, windowMs: 3_600_000 };
  const fields = Array.from({ length: 9_000 }, (_, i) => [`r/u.${i}`, "60 0 0"]);
  await stage.redis.hset(stage.keys.budget(budget.name), ...fields.flat());
  const amount = { tokens: 60, costUsd: 0 };
  expect(await book.reserve([budget], "a", amount, false)).toEqual({ status: "granted", used: 0.6 });
});

test("a run whose answer takes all of a budget and does not fit its output schema ends: each call is reserved once", async () => {
  const stage = await openStage({
    scenario: { turns: [{ ...text("no object"), usage: { ...usage, input_tokens: 20_000 } }], repeat: true },
    timing: LONG_TIMING,
  });
  const agent = await stage.task("work", {
    budgets: { agent: { max_total_tokens: 20_000 } },
    output_schema: { type: "object" },
    // Where it goes round, it ends with this.
    limits: { ...SPAWN_LIMITS, max_duration_ms: 3_000 },
  });
  const book = createBudgetBook(stage.redis, stage.keys, LONG_TIMING);
  const reserved: string[] = [];
  const budgets: BudgetBook = {
    ...book,
    reserve(budget, purchaseId, ...more) {
      reserved.push(purchaseId);
      return book.reserve(budget, purchaseId, ...more);
    },
  };
  const end = await run(runContextOf(stage, { budgets }), { address: agent, wake: 1, timesTaken: 1 });
  expect(end).toEqual({
    status: "settled",
    reply: { status: "partial", stop_reason: "invalid_output", turns: 1 },
  });
  expect(reserved).toEqual([...new Set(reserved)]);
  expect(await stage.reply(agent)).toMatchObject({ summary: "no object", tokens: 20_100 });
});

const DEAR = { input: 1_000, output: 5_000, cache_read: 100, cache_write: 1_250 };

test("a call is reserved at the price of the dearest model of its chain", async () => {
  const stage = await openStage({
    scenario: { turns: [text("done")], repeat: true, hand_back: text("so far") },
  });
  await stage.startWorker({ prices: { dear: DEAR } });
  // About 1,000 to 6,000 tokens of prompt and 500 of answer: at most a cent by the first model, more by the second.
  const budgets = { agent: { max_cost_usd: 0.1 } };
  const client = stage.client({ prices: { dear: DEAR } });
  const parent = testParent(client, { parentId: "chained", model: "claude-haiku-4-5", budgets });
  expect(await parent.task("look")).toMatchObject({ status: "succeeded", summary: "done" });
  const chained = await parent.task({ prompt: "look", fallback_models: ["dear"] });
  expect(chained).toMatchObject({ status: "partial", stop_reason: "max_cost" });
});

test.each([
  ["of its own", { limits: { max_cost_usd: 1 } }, {}],
  ["of its tenant", {}, { tenant: { max_cost_usd: 1, window_ms: 3_600_000 } }],
  ["of its own, by a model to fall back on", { limits: { max_cost_usd: 1 }, fallback_models: ["dear"] }, {}],
])(
  "a cap in USD %s ends a run before it buys anything where the worker knows no price",
  async (_, spawn, budgets) => {
    const stage = await openStage({ scenario: { turns: [text("done")], repeat: true } });
    await stage.startWorker();
    const prices = { dear: DEAR };
    const model = "fallback_models" in spawn ? "claude-haiku-4-5" : "dear";
    const parent = testParent(stage.client({ prices, budgets }), { parentId: "unpriced", model });
    const reply = await parent.task({ prompt: "look", ...spawn });
    expect(reply).toMatchObject({ status: "failed", stop_reason: "model_error", turns: 0 });
    expect(reply.error).toMatch(/price of model "dear".*SUBAGENT_PRICES/);
    expect(stage.offline.ledger).toEqual([]);
    // Without a cap the price is not needed.
    const free = testParent(stage.client({ prices }), { parentId: "free", model: "dear" });
    expect(await free.task("look")).toMatchObject({ status: "succeeded" });
  },
);

test("an image takes a fixed part of a budget, whatever its bytes", async () => {
  const stage = await openStage({ scenario: { turns: [text("seen")], repeat: true } });
  await stage.startWorker();
  const png = Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), Buffer.alloc(100_000, 7)]);
  const images = [{ base64: png.toString("base64") }, { base64: png.toString("base64") }];
  const look = (max_total_tokens: number) =>
    stage
      .parent(`seeing-${max_total_tokens}`, { budgets: { parent: { max_total_tokens } } })
      .task({ prompt: "look", images });
  expect(await look(20_000)).toMatchObject({ status: "succeeded", summary: "seen" });
  expect(await look(10_000)).toMatchObject({ status: "partial", stop_reason: "max_total_tokens", turns: 0 });
});

test("a prompt is counted by its bytes: a character of Chinese has three", async () => {
  const stage = await openStage({ scenario: { turns: [text("read")], repeat: true } });
  await stage.startWorker();
  const budgets = { parent: { max_total_tokens: 20_000 } };
  const read = (prompt: string) =>
    stage.parent(prompt.slice(0, 1).codePointAt(0)?.toString(), { budgets }).task(prompt);
  expect(await read("a".repeat(40_000))).toMatchObject({ status: "succeeded" });
  expect(await read("\u8bfb".repeat(40_000))).toMatchObject({ status: "partial", turns: 0 });
});

test("what is spent of a budget can be read, and is what its runs cost", async () => {
  const stage = await openStage({ scenario: { turns: [{ ...text("done"), usage }] } });
  await stage.startWorker();
  const budgets = { parent: { max_cost_usd: 5 } };
  const parent = stage.parent("counted", { model: "claude-haiku-4-5", budgets });
  const [budget] = budgetsOf({ tenant: "default", parentId: "counted", uid: "" }, budgets);
  if (!budget) throw new Error("no budget binds the parent");
  expect(await readSpent(stage.redis, stage.keys, budget)).toEqual({ tokens: 0, costUsd: 0 });
  const { cost_usd: costUsd, tokens } = await parent.task("look");
  expect(costUsd).toBeGreaterThan(0);
  await until(async () => (await readSpent(stage.redis, stage.keys, budget)).tokens === tokens);
  expect((await readSpent(stage.redis, stage.keys, budget)).costUsd).toBeCloseTo(costUsd, 6);
});

test("another window is another book: what was spent within the old one neither blocks nor frees the new", async () => {
  const stage = await openStage();
  const book = createBudgetBook(stage.redis, stage.keys, SHORT_TIMING);
  const within = (window_ms: number) =>
    budgetsOf({ tenant: "t", parentId: "p", uid: "u" }, { tenant: { max_total_tokens: 100, window_ms } });
  const [hour, month] = [within(3_600_000), within(30 * 24 * 3_600_000)];
  const amount = { tokens: 90, costUsd: 0 };
  expect(await book.reserve(hour, "a", amount, false)).toMatchObject({ status: "granted", used: 0.9 });
  expect(await book.reserve(month, "b", amount, false)).toMatchObject({ status: "granted", used: 0.9 });
  expect(await book.reserve(hour, "c", amount, false)).toMatchObject({ status: "refused" });
});

test("where one of several budgets cannot be asked, the others give back what they have granted", async () => {
  const stage = await openStage();
  const book = createBudgetBook(stage.redis, stage.keys, SHORT_TIMING);
  const budgets = { agent: { max_total_tokens: 100 }, parent: { max_total_tokens: 100 } };
  const bound = budgetsOf({ tenant: "t", parentId: "p", uid: "u" }, budgets);
  const [ofAgent, ofParent] = bound;
  if (!ofAgent || !ofParent) throw new Error("two budgets bind it");
  await stage.redis.set(stage.keys.budget(ofParent.name), "foreign");
  await expect(book.reserve(bound, "a", { tokens: 90, costUsd: 0 }, false)).rejects.toThrow("WRONGTYPE");
  await until(async () => (await readSpent(stage.redis, stage.keys, ofAgent)).tokens === 0);
});
