/** Guarantee: between pause and resume nothing is spent; nothing is lost by it, and afterwards work goes on at once. */
import type { ServerResponse } from "node:http";
import type { Command } from "ioredis";
import { expect, test } from "vitest";
import { createClient } from "../../../src/producer/client.ts";
import type { AgentRecord } from "../../../src/shared/protocol/agent.ts";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { closeRedis, openRedis, type RedisClient } from "../../../src/shared/redis/connection/connection.ts";
import { createPause } from "../../../src/shared/redis/pause.ts";
import { createWakeQueue } from "../../../src/shared/redis/wake-queue.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import type { Model } from "../../../src/worker/model/model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { type Latch, latch } from "../../helpers/latch.ts";
import { FSYNC_NEVER, redisUrl, startPrivateRedis } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage, type StageOptions } from "../../stage/stage.ts";
import { send, startProvider } from "../../unit/worker/model/scripted-provider.ts";

const LATENCY_MS = 400;
const list = { content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }] };
const done = { content: [{ type: "text" as const, text: "done" }] };
/** Five calls a run. */
const SCENARIO = { turns: [list, list, list, list, done] };

async function opened(options: StageOptions = {}) {
  const installation = await openStage({ scenario: SCENARIO, latencyMs: LATENCY_MS, ...options });
  const pause = createPause(installation.redis, installation.keys);
  const tasks = (count: number) =>
    Promise.all(Array.from({ length: count }, (_, i) => installation.task(`work ${i}`)));
  return Object.assign(installation, { pause, tasks });
}

/** As `model`, but the answers of second calls are held until the latch is open; `held` gets their purchase ids. */
function holdingSeconds(model: Model, held: Set<string>, released: Latch<void>): Model {
  return {
    ...model,
    async call(request, control) {
      const isHeld = !released.isOpen && JSON.parse(`[${request.messages}]`).length > 1;
      if (isHeld) held.add(request.purchaseId);
      const outcome = await model.call(request, control);
      if (isHeld) await released.opened;
      return outcome;
    },
  };
}

/** Resolves when no run is held and no call is under way any more. */
async function standsStill(installation: Stage, agents: readonly Agent[]): Promise<void> {
  const isStill = async () => {
    const records = await Promise.all(agents.map((agent) => installation.record(agent)));
    return installation.offline.inFlight === 0 && records.every(({ status }) => status === "queued");
  };
  await until(isStill, { what: "every run to be queued" });
}

function expectNothingBoughtTwice({ offline }: Stage, runs: number): void {
  const bought = offline.ledger.filter(({ status }) => status === "served");
  expect(bought).toHaveLength(runs * SCENARIO.turns.length);
  expect(new Set(bought.map((call) => `${call.conversation} ${call.turn}`)).size).toBe(bought.length);
}

test("after pause no call begins, on any worker; what was in flight is kept; after resume all go on at once", async () => {
  const installation = await opened();
  const [paused, resumed] = [latch(), latch()];
  let isResumed = false;
  const [held, heldAgain] = [new Set<string>(), new Set<string>()];
  const calling = heldModel(installation, ({ purchaseId }) => {
    if (!isResumed) return undefined;
    heldAgain.add(purchaseId);
    return resumed.opened;
  });
  // All runs are in the middle of their second calls when the pause comes.
  const worker = await installation.startWorker({
    concurrency: 4,
    model: holdingSeconds(calling, held, paused),
  });
  const others = heldModel(installation, () => undefined);
  await installation.startWorker({ concurrency: 4, model: holdingSeconds(others, held, paused) });
  const agents = await installation.tasks(12);
  const begun = () => new Set(installation.offline.ledger.map(({ conversation }) => conversation));
  await until(() => held.size === 8 && installation.offline.ledger.length === 16, {
    what: "calls on both workers",
  });
  await installation.pause.pause("the budget is used up");
  const pausedAt = Date.now();
  paused.open();
  await standsStill(installation, agents);
  // A run may have been on its way to the provider; none of them called once more.
  const later = installation.offline.ledger.filter(({ at }) => at > pausedAt);
  expect(new Set(later.map(({ conversation }) => conversation)).size).toBe(later.length);
  expect(begun().size).toBe(8);
  const records = await Promise.all(agents.map((agent) => installation.record(agent)));
  expect(records.map(({ attempts }) => attempts)).toEqual(records.map(() => 0));
  expect(await worker.readiness()).toMatchObject({
    ready: false,
    reasons: [expect.stringMatching(/^the installation is paused since .*: the budget is used up$/)],
  });
  const stood = installation.offline.ledger.length;
  const turns = records.reduce((sum, { progress }) => sum + (progress?.turns ?? 0), 0);
  expect(turns).toBe(stood);

  const further = await installation.task("said while paused");
  await until(async () => (await installation.record(further)).wake === 1);
  expect(installation.offline.ledger).toHaveLength(stood);
  isResumed = true;
  expect(await installation.pause.resume()).toMatchObject({ reason: "the budget is used up" });
  // While each place of one worker is held in a call, the other one makes its own.
  await until(() => heldAgain.size === 4 && installation.offline.ledger.length >= stood + 4, {
    what: "calls on both workers after the resume",
  });
  resumed.open();
  for (const agent of [...agents, further]) {
    expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", turns: 5 });
  }
  expectNothingBoughtTwice(installation, 13);
});

test("a pause outlives the workers; those that start meanwhile take nothing until it is over", async () => {
  const { checkMs, longestCheckMs } = SHORT_TIMING;
  const installation = await opened({ latencyMs: 0, timing: { ...TIMING, checkMs, longestCheckMs } });
  const paused = latch();
  const held = new Set<string>();
  const model = holdingSeconds(
    heldModel(installation, () => undefined),
    held,
    paused,
  );
  const first = await installation.startWorker({ model });
  const agents = await installation.tasks(4);
  await until(() => held.size === 4);
  await installation.pause.pause();
  paused.open();
  await standsStill(installation, agents);
  await first.stop();
  await installation.startWorker();
  await installation.startWorker();
  const stood = installation.offline.ledger.length;
  const before = await Promise.all(agents.map((agent) => installation.record(agent)));
  // Sweepers look several times: the wakes are there, and no further ones are made.
  const isChecked = async (agent: Agent) => {
    const nextCheck = await installation.redis.zscore(installation.keys.deadlines, deadlineMember(agent));
    // The first check comes within a tick of the deadline, and sets the next one within the longest look from then on.
    return Number(nextCheck) >= (await installation.record(agent)).deadline + 2 * longestCheckMs;
  };
  await until(async () => (await Promise.all(agents.map(isChecked))).every((isTwice) => isTwice), {
    what: "two checks of every run",
  });
  const after = await Promise.all(agents.map((agent) => installation.record(agent)));
  expect(after.map(({ epoch }) => epoch)).toEqual(before.map(({ epoch }) => epoch));
  for (const [i, { wake }] of after.entries()) expect(wake - (before[i]?.wake ?? 0)).toBeLessThanOrEqual(1);
  expect(installation.offline.ledger).toHaveLength(stood);
  await installation.pause.resume();
  for (const agent of agents) expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
  expectNothingBoughtTwice(installation, 4);
});

test("a pause outlives Redis, where Redis keeps what it is told", async () => {
  const server = await startPrivateRedis({ arguments: FSYNC_NEVER });
  const installation = await opened({ redis: server, latencyMs: 50 });
  await installation.startWorker();
  await installation.pause.pause("night");
  const agents = await installation.tasks(2);
  await server.kill();
  await server.start();
  expect(await installation.pause.state()).toMatchObject({ reason: "night" });
  await standsStill(installation, agents);
  expect(installation.offline.ledger).toEqual([]);
  await installation.pause.resume();
  for (const agent of agents) expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
});

test("half a pause holds as well: with its key alone runs are handed back, one look a second", async () => {
  const installation = await opened({ latencyMs: 0 });
  await installation.redis.set(installation.keys.paused, '{"v":1,"at":"2026-11-01T00:00:00.000Z"}');
  await installation.startWorker();
  const agent = await installation.task("work");
  // While a claim asks, its renewals count its time; the hand-back takes it off again.
  const isBack = ({ wake, status }: AgentRecord) => wake >= 3 && status === "queued";
  const asked = await installation.recordWhere(agent, isBack);
  expect(asked).toMatchObject({ attempts: 0, running_ms: 0 });
  expect(installation.offline.ledger).toEqual([]);
  await installation.pause.resume();
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
});

test("a run that the pause hands back after a call of its own failed keeps the time of that call", async () => {
  const installation = await opened({
    scenario: { turns: [{ ...done, failures: [{ status: 500 }] }] },
    latencyMs: 0,
  });
  const calling = heldModel(installation, () => undefined);
  let spentMs = 0;
  const model: Model = {
    ...calling,
    async call(request, control) {
      const startedMs = performance.now();
      const outcome = await calling.call(request, control);
      if (outcome.status !== "failed") return outcome;
      await installation.pause.pause();
      spentMs = performance.now() - startedMs;
      return outcome;
    },
  };
  await installation.startWorker({ model });
  const agent = await installation.task("work");
  const isBack = ({ attempts, status }: AgentRecord) => attempts === 1 && status === "queued";
  const back = await installation.recordWhere(agent, isBack);
  expect(back.running_ms).toBeGreaterThanOrEqual(Math.floor(spentMs));
  await installation.pause.resume();
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", turns: 1 });
});

test("a call that waits for a connection does not begin once its installation is paused", async () => {
  const waiting: ServerResponse[] = [];
  const provider = await startProvider((response) => waiting.push(response));
  const answer = () => {
    for (const response of waiting.splice(0)) send(response, done.content);
  };
  const installation = await opened();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl, connections: 1 });
  closeAtEnd(() => model.stop());
  const worker = await installation.startWorker({ model });
  const agents = await installation.tasks(2);
  await until(() => worker.active().length === 2 && waiting.length === 1);
  await installation.pause.pause();
  answer();
  const statuses = async () => {
    const records = await Promise.all(agents.map((agent) => installation.record(agent)));
    return records.map(({ status }) => status).sort();
  };
  await until(async () => (await statuses()).join() === "ended,queued");
  expect(provider.received).toHaveLength(1);
  await installation.pause.resume();
  await until(() => {
    answer();
    return provider.received.length === 2;
  });
  answer();
  for (const agent of agents) expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
  expect(provider.received).toHaveLength(2);
  const timelines = agents.map(({ parentId, agentId }) => installation.parent(parentId).timeline(agentId));
  const reasons = (await Promise.all(timelines)).flat().flatMap((event) => Object(event).reason ?? []);
  expect(new Set(reasons)).toEqual(new Set(["paused"]));
});

test("a client pauses and resumes; of two operators the first one's word stands", async () => {
  const installation = await opened();
  const client = createClient({ redisUrl: redisUrl(), prefix: installation.prefix });
  closeAtEnd(() => client.stop());
  const first = await client.pause("budget");
  expect(first).toMatchObject({ reason: "budget" });
  expect(await client.pause("another")).toEqual(first);
  expect(await installation.pause.state()).toEqual(first);
  expect(await client.resume()).toEqual(first);
  expect(await client.resume()).toBeUndefined();
  expect(await installation.pause.state()).toBeUndefined();
  await expect(client.pause("")).rejects.toMatchObject({ code: "invalid_input" });
});

/** Has `meanwhile` done right before or after the next command of this name; `verb` stands for a script, however it is sent. */
function interrupt(
  redis: RedisClient,
  when: "before" | "after",
  name: "verb" | "del",
  meanwhile: () => Promise<unknown>,
) {
  const send = redis.sendCommand;
  const interrupted = async (command: Command) => {
    const isMeant = name === "verb" ? command.name.startsWith("eval") : command.name === name;
    if (!isMeant) return send.call(redis, command);
    redis.sendCommand = send;
    if (when === "before") await meanwhile();
    const answer = await send.call(redis, command);
    if (when === "after") await meanwhile();
    return answer;
  };
  redis.sendCommand = interrupted;
}

test.for([
  ["resume", "after", "verb", "pause"],
  ["pause", "before", "del", "resume"],
] as const)(
  "a %s right %s the %s of a %s leaves no queue standing still without a pause",
  async ([quick, when, command, slow]) => {
    const installation = await opened({ latencyMs: 0 });
    const { redis, keys, pause } = installation;
    const operator = openRedis(redisUrl(), "worker");
    closeAtEnd(() => closeRedis(operator));
    interrupt(redis, when, command, () => createPause(operator, keys)[quick]());
    await pause[slow]();
    expect(await pause.state()).toBeUndefined();
    await installation.startWorker();
    const agent = await installation.task("work");
    expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
  },
);

test("a pause right after the del of a resume leaves no queue going on beside it", async () => {
  const { redis, keys, pause } = await opened({ latencyMs: 0 });
  const operator = openRedis(redisUrl(), "worker");
  const wakes = createWakeQueue(operator, keys);
  closeAtEnd(async () => {
    await wakes.stop();
    closeRedis(operator);
  });
  await pause.pause("the first");
  interrupt(redis, "after", "del", () => createPause(operator, keys).pause("the second"));
  await pause.resume();
  expect(await pause.state()).toMatchObject({ reason: "the second" });
  expect(await wakes.isPaused()).toBe(true);
});
