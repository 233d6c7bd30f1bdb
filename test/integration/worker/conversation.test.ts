/** Guarantee: what the parent says reaches the run or the next one, and `finish` ends a run with its findings. */
import { expect, test } from "vitest";
import { z } from "zod";
import { SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import type { Model } from "../../../src/worker/model/model.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
const wait = {
  content: [
    { type: "text" as const, text: "Waiting." },
    { type: "tool_use" as const, name: "wait", input: {} },
  ],
};

function waitingTool() {
  const started = latch();
  const go = latch();
  const tool = defineTool({
    name: "wait",
    description: "Waits until it may go on.",
    input: z.object({}),
    async run() {
      started.open();
      await go.opened;
      return "waited";
    },
  });
  return { tool, started, go };
}

test("an answer is in the log before the next call begins, also where no tool stands between them", async () => {
  const paused = { content: [{ type: "text" as const, text: "let me think" }], stop_reason: "pause_turn" };
  const installation = await openStage({
    scenario: { turns: [paused, { ...say("done"), latencyMs: 60_000 }] },
  });
  const { offline, redis, keys } = installation;
  await installation.startWorker({ drainGraceMs: 0 });
  const agent = await installation.task("work");
  await until(() => offline.ledger.length === 1 && offline.inFlight === 1, { what: "the second call" });
  expect((await redis.hkeys(keys.agent(agent).log)).sort()).toEqual(["0", "1"]);
});

test("finish makes the next model call the final call", async () => {
  const installation = await openStage({
    scenario: { turns: [wait, wait], hand_back: say("So far: half.") },
  });
  const { tool, started, go } = waitingTool();
  await installation.startWorker({ tools: [tool] });
  const agent = await installation.task("work");
  await started.opened;
  expect(await installation.store.finish(agent)).toMatchObject({ status: "finishing" });
  go.open();
  expect(await installation.reply(agent)).toMatchObject({
    status: "partial",
    stop_reason: "finished_by_parent",
    summary: "So far: half.",
    turns: 2,
  });
  expect(installation.offline.ledger.map((call) => call.tool_choice)).toEqual(["auto", "none"]);
});

test("a run that is asked to finish before its first call buys none, and its agent takes further messages", async () => {
  const installation = await openStage({ scenario: { turns: [say("done")], hand_back: say("nothing yet") } });
  const agent = await installation.task("work", { keep_alive: true });
  await installation.store.finish(agent);
  await installation.startWorker();
  expect(await installation.reply(agent)).toMatchObject({
    status: "partial",
    stop_reason: "finished_by_parent",
    agent_status: "idle",
    summary: "(no summary)",
    turns: 0,
    tokens: 0,
  });
  expect(installation.offline.ledger).toEqual([]);
  expect(await installation.send(agent, "go on")).toBe("queued");
  expect(await installation.reply(agent, 2)).toMatchObject({
    status: "succeeded",
    summary: "done",
    turns: 1,
  });
});

test("a follow-up to a kept-alive agent is a new run that sees the earlier conversation", async () => {
  const installation = await openStage({ scenario: { turns: [say("one"), say("two for {{user}}")] } });
  await installation.startWorker();
  const agent = await installation.task("first", { keep_alive: true });
  expect(await installation.reply(agent)).toMatchObject({
    run: 1,
    agent_status: "idle",
    summary: "one",
    turns: 1,
  });
  expect(await installation.send(agent, "second")).toBe("queued");
  expect(await installation.reply(agent, 2)).toMatchObject({
    run: 2,
    agent_status: "idle",
    summary: "two for second",
    turns: 1,
  });
  const [first, second] = installation.offline.ledger;
  expect(second?.conversation).toBe(first?.conversation);
  expect(second?.turn).toBe(1);
});

test("a message in mid-run is read with the results of the tools, in the order in which it was sent", async () => {
  const installation = await openStage({ scenario: { turns: [wait, say("Heard.")] } });
  const { tool, started, go } = waitingTool();
  await installation.startWorker({ tools: [tool] });
  const agent = await installation.task("work", { keep_alive: true });
  await started.opened;
  expect(await installation.send(agent, "and also this")).toBe("delivered");
  expect(await installation.send(agent, "and that")).toBe("delivered");
  go.open();
  const reply = await installation.reply(agent);
  expect(reply).toMatchObject({ run: 1, status: "succeeded", turns: 2 });
  expect(reply.undelivered).toBeUndefined();
  const log = await installation.redis.hgetall(installation.keys.agent(agent).log);
  expect(JSON.parse(log["2"] ?? "{}").messages.map((message: { text: string }) => message.text)).toEqual([
    "and also this",
    "and that",
  ]);
  expect(Object.keys(log).filter((key) => key.endsWith("/result"))).toHaveLength(1);
});

test("a message that arrives at the natural end keeps the run going", async () => {
  const installation = await openStage({
    scenario: { turns: [say("finished"), say("Also done: {{user}}")] },
  });
  const answered = latch();
  const go = latch();
  const real = createAnthropicModel({ apiKey: "offline", baseUrl: installation.offline.url });
  closeAtEnd(() => real.stop());
  const model: Model = {
    ...real,
    async call(...args) {
      const outcome = await real.call(...args);
      answered.open();
      await go.opened;
      return outcome;
    },
  };
  await installation.startWorker({ model });
  const agent = await installation.task("work");
  await answered.opened;
  expect(await installation.send(agent, "one more thing")).toBe("delivered");
  go.open();
  expect(await installation.reply(agent)).toMatchObject({
    run: 1,
    status: "succeeded",
    turns: 2,
    summary: "Also done: one more thing",
    agent_status: "ended",
  });
  expect(await installation.entries(agent)).toHaveLength(1);
});

test("after a run that its provider failed, a kept-alive agent still reads the next message", async () => {
  const message = "prompt is too long: 210000 tokens > 200000 maximum";
  const installation = await openStage({ scenario: { turns: [{ error: { status: 400, message } }] } });
  await installation.startWorker();
  const agent = await installation.task("first", { keep_alive: true });
  expect(await installation.reply(agent)).toMatchObject({
    stop_reason: "context_window",
    agent_status: "idle",
  });
  installation.offline.setScenario({ turns: [say("here again")] });
  await installation.send(agent, "second");
  expect(await installation.reply(agent, 2)).toMatchObject({
    run: 2,
    status: "succeeded",
    summary: "here again",
  });
  expect(await installation.entries(agent)).toHaveLength(2);
});

test("after a run that ended before its first answer, a kept-alive agent still reads the next message", async () => {
  const installation = await openStage({
    scenario: { turns: [{ ...say("late"), latencyMs: 20_000 }] },
  });
  await installation.startWorker();
  const limits = { ...SPAWN_LIMITS, max_duration_ms: 2_000 };
  const agent = await installation.task("first", { keep_alive: true, limits });
  expect(await installation.reply(agent)).toMatchObject({
    stop_reason: "max_duration",
    turns: 0,
    agent_status: "idle",
  });
  installation.offline.setScenario({ turns: [say("here again")] });
  await installation.send(agent, "second");
  expect(await installation.reply(agent, 2)).toMatchObject({
    run: 2,
    status: "succeeded",
    summary: "here again",
  });
});
