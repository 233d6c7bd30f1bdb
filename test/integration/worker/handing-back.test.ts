/**
 * Guarantee: however a process' part in a run ends before the run does, the process hands it back with its wake and its hint,
 * or leaves it to whoever has it. One run without a pool and without a sweeper: nothing heals what is left undone.
 */
import { expect, test } from "vitest";
import { z } from "zod";
import type { Scenario } from "../../../src/offline/server.ts";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import { addUsage } from "../../../src/shared/protocol/content.ts";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import type { AgentStore } from "../../../src/shared/redis/agent-store.ts";
import { type BudgetBook, budgetsOf, createBudgetBook, readSpent } from "../../../src/shared/redis/budget.ts";
import { createPause } from "../../../src/shared/redis/pause.ts";
import { createProviderLimiter } from "../../../src/shared/redis/provider-limiter.ts";
import type { Hook } from "../../../src/worker/hooks/hooks.ts";
import type { CallOutcome, Model } from "../../../src/worker/model/model.ts";
import type { RunContext } from "../../../src/worker/run/context.ts";
import { run } from "../../../src/worker/run/run.ts";
import { createRunSlots } from "../../../src/worker/run-slots.ts";
import { askParentTool } from "../../../src/worker/tools/builtin/parent.ts";
import { writeFileTool } from "../../../src/worker/tools/builtin/write-file.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { kindsWith, providerLimitOf, runContextOf, skippingClock } from "../../helpers/run-context.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, LONG_TIMING, openStage, type SpawnOptions, type Stage } from "../../stage/stage.ts";

const { leaseMs } = LONG_TIMING;
const done = { content: [{ type: "text" as const, text: "done" }] };
const BILL = {
  input_tokens: 100,
  output_tokens: 10,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
};
const OPEN = { status: "open", enteredAt: 0, holdsSlot: false } as const;
const uses = (name: string, input: Record<string, unknown> = {}) => ({
  content: [{ type: "tool_use" as const, name, input }],
});

/** A queued agent of an installation in which nothing heals by itself. */
async function scene(scenario: Scenario = { turns: [done] }, spec?: SpawnOptions) {
  const installation = await openStage({ scenario, timing: LONG_TIMING });
  const agent = await installation.task("work", spec);
  const perform = (more?: Partial<RunContext>, wake = 1) =>
    run(runContextOf(installation, more), { address: agent, wake, timesTaken: 1 });
  return { installation, agent, perform };
}

/** The installation's store with `verb` preceded by `before`. */
function preceded<V extends "claim" | "release" | "ask" | "append">(
  { store }: Stage,
  verb: V,
  before: (input: Parameters<AgentStore[V]>[1]) => Promise<unknown>,
): AgentStore {
  const told = async (address: Agent, input: Parameters<AgentStore[V]>[1]) => {
    await before(input);
    return (store[verb] as (a: Agent, i: typeof input) => unknown)(address, input);
  };
  return { ...store, [verb]: told };
}

type Reserve = BudgetBook["reserve"];

/** The installation's budgets, of which `reserve` asks as it wants to. */
function bookOf(
  { redis, keys, store }: Stage,
  reserve: (really: () => ReturnType<Reserve>) => ReturnType<Reserve>,
): BudgetBook {
  const book = createBudgetBook(redis, keys, store.timing);
  return { ...book, reserve: (...given) => reserve(() => book.reserve(...given)) };
}

/** A clock by which five seconds are over as soon as they begin. */
function withoutFiveSeconds(): Clock {
  const none = { cancel: () => {} };
  return {
    ...systemClock,
    timeout(ms, callback) {
      if (ms !== 5_000) return systemClock.timeout(ms, callback);
      callback();
      return none;
    },
  };
}

const isWoken = ({ wakes }: Stage, { uid }: Agent, wake = 2) => wakes.isAlive({ uid, wake });

test("a lease that is over before the first byte of a call buys nothing, and its holder gives it back with a wake", async () => {
  const { installation, agent, perform } = await scene();
  const clock = skippingClock();
  const model = heldModel(installation, async () => clock.skip(leaseMs));
  expect(await perform({ clock, model })).toEqual({ status: "released", reason: "lease_lost" });
  expect(installation.offline.ledger).toEqual([]);
  const { status, breaks, crashes_without_progress: crashes } = await installation.record(agent);
  expect([status, breaks, crashes]).toEqual(["queued", 1, 0]);
  expect(await isWoken(installation, agent)).toBe(true);
});

test("a lease that is over when the limiter answers is one that was lost, whatever the limiter says", async () => {
  const { installation, perform } = await scene();
  const { redis, keys } = installation;
  await createPause(redis, keys).pause("night");
  const clock = skippingClock();
  const { acquire: enter } = createProviderLimiter(redis, keys);
  const provider = providerLimitOf(installation, clock, {
    acquire(name, uid) {
      clock.skip(leaseMs);
      return enter(name, uid);
    },
  });
  expect(await perform({ clock, provider })).toEqual({ status: "released", reason: "lease_lost" });
});

test("what was reserved for a call is given back where the lease is over before it", async () => {
  const budgets = { agent: { max_total_tokens: 1_000_000 } };
  const { installation, agent, perform } = await scene(undefined, { budgets });
  const { redis, keys } = installation;
  const clock = skippingClock();
  const [budget] = budgetsOf(agent, budgets);
  if (!budget) throw new Error("no budget binds the agent");
  let reserved = 0;
  const book = bookOf(installation, async (reserve) => {
    const answer = await reserve();
    reserved = (await readSpent(redis, keys, budget)).tokens;
    clock.skip(leaseMs);
    return answer;
  });
  expect(await perform({ clock, budgets: book })).toEqual({ status: "released", reason: "lease_lost" });
  expect(reserved).toBeGreaterThan(0);
  await until(async () => (await readSpent(redis, keys, budget)).tokens === 0);
});

test("a call that its provider holds up takes nothing of a budget: others find all of it", async () => {
  const { installation, perform } = await scene(undefined, {
    budgets: { parent: { max_total_tokens: 1_000_000 } },
  });
  let reservations = 0;
  const budgets = bookOf(installation, (reserve) => {
    reservations += 1;
    return reserve();
  });
  const provider = providerLimitOf(installation, systemClock, {
    acquire: async () => ({ status: "wait", waitMs: 60_000, reason: "overloaded" }),
  });
  expect(await perform({ provider, budgets })).toEqual({ status: "released", reason: "overloaded" });
  expect(reservations).toBe(0);
});

test.for([
  [
    "has no room",
    async () => ({ status: "refused", over: "max_cost", budget: { name: "agent", of: "agent" } }) as const,
    "settled",
  ],
  ["cannot be asked", () => Promise.reject(new Error("away")), "released"],
] as const)("where a budget %s, the call's place at the provider is given back", async ([, reserve, end]) => {
  const { installation, perform } = await scene(undefined, { budgets: { parent: { max_cost_usd: 1 } } });
  const left: string[] = [];
  const provider = providerLimitOf(installation, systemClock, {
    acquire: async () => ({ status: "open", enteredAt: 0, holdsSlot: true }),
    async release(_name, _uid, _admission, { outcome }) {
      left.push(outcome);
      return "left";
    },
  });
  const budgets = bookOf(installation, reserve);
  expect(await perform({ provider, budgets })).toMatchObject({ status: end });
  expect(left).toEqual(["neutral"]);
  expect(installation.offline.ledger).toEqual([]);
});

test.for([
  ["answers", systemClock, [expect.objectContaining({ path: "a.txt" })]],
  ["does not answer", withoutFiveSeconds(), undefined],
] as const)(
  "a reply names the files where their volume answers; it goes out where it %s",
  async ([, clock, files]) => {
    const write = uses("write_file", { file_path: "a.txt", content: "A" });
    const { installation, agent, perform } = await scene({ turns: [write, done] });
    expect(await perform({ clock, specs: kindsWith([writeFileTool()]) })).toMatchObject({
      status: "settled",
    });
    const reply = await installation.reply(agent);
    expect(reply).toMatchObject({ status: "succeeded" });
    expect(reply.files).toEqual(files);
    expect(reply.more_files).toBe(files === undefined ? true : undefined);
  },
);

test("a lease that is over before a step is one that was lost, also where the process stops", async () => {
  const { installation, perform } = await scene();
  const clock = skippingClock();
  const drains = new AbortController();
  const store = preceded(installation, "claim", async () => {
    drains.abort();
  });
  const { claim } = store;
  store.claim = async (...given) => {
    const claimed = await claim(...given);
    clock.skip(leaseMs);
    return claimed;
  };
  const end = await perform({ clock, store, draining: drains.signal });
  expect(end).toEqual({ status: "released", reason: "lease_lost" });
});

test("a run makes room for a suspect after the step at hand", async () => {
  const { installation, perform } = await scene({ turns: [uses("absent"), done] });
  const { signal: draining } = new AbortController();
  const nothing = () => {};
  const { clock, ...context } = runContextOf(installation);
  const slots = createRunSlots({ clock, draining, pause: nothing, resume: nothing });
  const suspect = slots.admit();
  let isAlone: Promise<boolean> | undefined;
  const model = heldModel(installation, async () => {
    isAlone ??= suspect?.isolate();
  });
  expect(await perform({ ...context, model, slots })).toEqual({
    status: "released",
    reason: "isolation",
  });
  expect(await isAlone).toBe(true);
});

test("a run that breaks off is handed back, and rests twice as long each time before its wake", async () => {
  const { installation, agent, perform } = await scene();
  const { redis, keys, wakes } = installation;
  await redis.hset(keys.agent(agent).log, "0", '{"v":1,"role":"user","run":"first","messages":[]}');
  const delays: unknown[] = [];
  const store = preceded(installation, "release", async ({ delay_ms }) => delays.push(delay_ms));
  for (const breaks of ["0", "1"]) {
    await redis.hset(keys.agent(agent).record, { breaks, not_before: "0" });
    expect(await perform({ store })).toEqual({ status: "released", reason: "broken_off" });
  }
  expect(delays).toEqual([5_000, 10_000]);
  expect(await isWoken(installation, agent)).toBe(false);
  expect(await wakes.counts()).toMatchObject({ delayed: 2 });
});

/** A model of which each call ends so, after the provider has begun its answer. */
const modelEnding = (outcome: CallOutcome): Model => ({
  async call(_request, control) {
    control.mayBegin();
    return outcome;
  },
  stop: async () => {},
});

const overloaded = (retryAfterMs: number): CallOutcome => ({
  status: "failed",
  failure: { kind: "overloaded", retryable: true, retryAfterMs, message: "Overloaded" },
  usage: BILL,
});

test.for([
  ["is to be made later", overloaded(10_000), "overloaded", 10_000],
  ["ended with its worker's model", { status: "aborted", usage: BILL }, "model_stopped", 5_000],
] as const)(
  "a hand-back after a call that %s rests, and the log has what the call cost",
  async ([, outcome, reason, restMs]) => {
    const { installation, agent, perform } = await scene();
    const { redis, keys, wakes } = installation;
    const delays: unknown[] = [];
    const store = preceded(installation, "release", async ({ delay_ms }) => delays.push(delay_ms));
    expect(await perform({ store, model: modelEnding(outcome), random: () => 0 })).toEqual({
      status: "released",
      reason,
    });
    expect(delays).toEqual([restMs]);
    expect(await wakes.counts()).toMatchObject({ delayed: 1 });
    await redis.hdel(keys.agent(agent).record, "not_before");
    const provider = providerLimitOf(installation, systemClock, { acquire: async () => OPEN });
    expect(await perform({ provider }, 2)).toMatchObject({ status: "settled" });
    const [served] = installation.offline.ledger;
    const { usage } = await installation.reply(agent);
    expect(usage).toEqual(served?.usage && addUsage(BILL, served.usage));
  },
);

test("a run whose provider wants a long wait asks the limiter before that: it knows when all may call again", async () => {
  const { installation, perform } = await scene();
  const delays: unknown[] = [];
  const store = preceded(installation, "release", async ({ delay_ms }) => delays.push(delay_ms));
  const model = modelEnding(overloaded(3_600_000));
  expect(await perform({ store, model })).toMatchObject({ status: "released" });
  expect(delays).toEqual([installation.store.timing.limiterAskMs]);
});

test("a claim and a hand-back make the hint themselves: nobody else's may be left", async () => {
  const call = { type: "tool_use" as const, name: "glob", input: { pattern: "*" } };
  const { installation, agent, perform } = await scene({ turns: [{ content: [call] }, done] });
  const { redis, keys } = installation;
  const member = deadlineMember(agent);
  const forget = () => redis.zrem(keys.deadlines, member);
  const hint = () => redis.zscore(keys.deadlines, member);
  await forget();
  const drains = new AbortController();
  let claimed: string | null = null;
  const model = heldModel(installation, async () => {
    claimed = await hint();
    await forget();
    drains.abort();
  });
  // The model's answer is kept, and the run handed back before its tool begins.
  expect(await perform({ model, draining: drains.signal })).toMatchObject({ reason: "drain" });
  expect(claimed).not.toBeNull();
  expect(await hint()).not.toBeNull();
});

test("a hand-back that comes too late wakes nobody, and a question that does is none", async () => {
  const asks = { turns: [uses("ask_parent", { question: "Which?" }), done] };
  for (const verb of ["release", "ask"] as const) {
    const { installation, agent, perform } = await scene(verb === "ask" ? asks : undefined, {
      answer_ms: 60_000,
    });
    const drains = new AbortController();
    if (verb === "release") drains.abort();
    const store = preceded(installation, verb, () => installation.destroy(agent));
    const specs = kindsWith([askParentTool()]);
    expect(await perform({ store, specs, draining: drains.signal })).toEqual({ status: "lost" });
    expect(await isWoken(installation, agent)).toBe(false);
  }
});

test("a settle whose answer was lost on the way stands as the run wanted it", async () => {
  const { installation, agent, perform } = await scene();
  const { store } = installation;
  const settle: typeof store.settle = async (address, input) => {
    await store.settle(address, input);
    return store.settle(address, input);
  };
  expect(await perform({ store: { ...store, settle } })).toMatchObject({ status: "settled" });
  expect(await installation.entries(agent)).toHaveLength(1);
});

test("the reply of a run that no worker can read any more tells what it had come to", async () => {
  const { installation, agent, perform } = await scene({ turns: [uses("absent"), done] });
  const { redis, keys } = installation;
  const drains = new AbortController();
  const model = heldModel(installation, async () => drains.abort());
  expect(await perform({ model, draining: drains.signal })).toMatchObject({ reason: "drain" });
  await redis.hset(keys.agent(agent).log, "0", "no JSON");
  await redis.hset(keys.agent(agent).record, { breaks: "2" });
  await perform({}, 2);
  expect(await installation.reply(agent)).toMatchObject({ stop_reason: "worker_lost", turns: 1 });
});

test("a beginning that stands otherwise in the log is not performed: somebody else's tool may be at work", async () => {
  const { installation, agent, perform } = await scene({ turns: [uses("absent"), uses("count"), done] });
  let performed = 0;
  const count = defineTool({
    name: "count",
    description: "Counts.",
    input: z.object({}),
    run: async () => `${++performed}`,
  });
  const { redis, keys } = installation;
  const { log } = keys.agent(agent);
  // What the run is about to commit stands there already, but the mark of the beginning was made by another hand.
  const store = preceded(installation, "append", async ({ entries = [] }) => {
    if (!entries.some(([, json]) => json.includes('"count"'))) return;
    for (const [key, json] of entries)
      await redis.hsetnx(log, key, key.endsWith("/started") ? `${json} ` : json);
  });
  expect(await perform({ store, specs: kindsWith([count]) })).toMatchObject({ status: "settled" });
  expect(performed).toBe(0);
});

test("a call whose run was lost while its beginning was marked is not begun: no hook is asked about it", async () => {
  const { installation, perform } = await scene({ turns: [uses("absent"), done] });
  const clock = skippingClock();
  const store = preceded(installation, "append", async ({ entries = [] }) => {
    if (entries.some(([key]) => key.endsWith("/started"))) clock.skip(leaseMs);
  });
  let asked = 0;
  const hook: Hook = {
    name: "counts",
    preToolUse() {
      asked += 1;
    },
  };
  expect(await perform({ clock, store, hooks: [hook] })).toEqual({
    status: "released",
    reason: "lease_lost",
  });
  expect(asked).toBe(0);
});

test("a pause between two tries of a call is not running time", async () => {
  const { installation, agent, perform } = await scene({ turns: [{ ...done, failures: [{ status: 500 }] }] });
  const clock = skippingClock();
  const restMs = 300_000;
  const sleep = async () => clock.skip(restMs);
  expect(await perform({ clock: { ...clock, sleep }, random: () => 0 })).toMatchObject({ status: "settled" });
  expect((await installation.reply(agent)).duration_ms).toBeLessThan(restMs);
});
