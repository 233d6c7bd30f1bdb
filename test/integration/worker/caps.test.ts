/** Guarantee: every run ends for a reason from the closed set, and a cap hands back what was found. */
import { expect, test } from "vitest";
import { z } from "zod";
import type { Scenario } from "../../../src/offline/server.ts";
import { SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { openStage, type SpawnOptions } from "../../stage/stage.ts";

const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
const list = (pattern: string) => ({
  content: [
    { type: "text" as const, text: `Listing ${pattern}.` },
    { type: "tool_use" as const, name: "glob", input: { pattern } },
  ],
});

async function runOf(scenario: Scenario, options?: SpawnOptions) {
  const installation = await openStage({ scenario });
  await installation.startWorker();
  const agent = await installation.task("work", options);
  return { reply: await installation.reply(agent), ledger: installation.offline.ledger };
}

test("at the last permitted turn the same tools are offered with tool_choice none, and the reply is partial", async () => {
  const { reply, ledger } = await runOf(
    { turns: ["a", "b", "c", "d"].map(list), hand_back: say("Found two of four.") },
    { limits: { ...SPAWN_LIMITS, max_turns: 3 } },
  );
  expect(reply).toMatchObject({
    status: "partial",
    stop_reason: "max_turns",
    turns: 3,
    summary: "Found two of four.",
  });
  expect(ledger.map((call) => call.tool_choice)).toEqual(["auto", "auto", "none"]);
  expect(reply.tools_called).toEqual({ glob: 2 });
});

test("with one permitted turn the only call is the final call", async () => {
  const { reply, ledger } = await runOf(
    { turns: [list("*")], hand_back: say("Nothing yet.") },
    { limits: { ...SPAWN_LIMITS, max_turns: 1 } },
  );
  expect(reply).toMatchObject({
    status: "partial",
    stop_reason: "max_turns",
    turns: 1,
    summary: "Nothing yet.",
  });
  expect(ledger.map((call) => call.tool_choice)).toEqual(["none"]);
});

test("when the final call fails, the last text of the run is the summary", async () => {
  const { reply } = await runOf(
    { turns: [list("*")], hand_back: { error: { status: 400 } } },
    { limits: { ...SPAWN_LIMITS, max_turns: 2 } },
  );
  expect(reply).toMatchObject({ status: "partial", stop_reason: "max_turns", summary: "Listing *." });
});

test("the time cap ends a slow call early enough for the final call", async () => {
  const { reply, ledger } = await runOf(
    { turns: [list("*"), { ...say("too late"), latencyMs: 20_000 }], hand_back: say("In time.") },
    { limits: { ...SPAWN_LIMITS, max_duration_ms: 4_000 } },
  );
  expect(reply).toMatchObject({ status: "partial", stop_reason: "max_duration", summary: "In time." });
  expect(ledger.map(({ status, tool_choice }) => [status, tool_choice])).toEqual([
    ["served", "auto"],
    ["aborted", "auto"],
    ["served", "none"],
  ]);
  // The final call is another request for the same message.
  expect(new Set(ledger.map(({ idempotency_key }) => idempotency_key)).size).toBe(3);
});

test("the time cap ends a slow tool early enough for the final call", async () => {
  const installation = await openStage({
    scenario: {
      turns: [{ content: [{ type: "tool_use", name: "endless", input: {} }] }],
      hand_back: say("In time."),
    },
  });
  const endless = defineTool({
    name: "endless",
    description: "Waits until it is told to stop.",
    input: z.object({}),
    async run(_input, { signal }) {
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return "stopped";
    },
  });
  await installation.startWorker({ tools: [endless] });
  const agent = await installation.task("work", { limits: { ...SPAWN_LIMITS, max_duration_ms: 4_000 } });
  expect(await installation.reply(agent)).toMatchObject({
    status: "partial",
    stop_reason: "max_duration",
    summary: "In time.",
  });
  expect(installation.offline.ledger.map(({ tool_choice }) => tool_choice)).toEqual(["auto", "none"]);
});

test("an answer cut off at max_tokens is the partial reply, and its tool call is never run", async () => {
  const cut = { ...list("*"), stop_reason: "max_tokens" };
  const { reply, ledger } = await runOf({ turns: [cut] });
  expect(reply).toMatchObject({
    status: "partial",
    stop_reason: "max_tokens",
    summary: "Listing *.",
    tools_called: {},
  });
  expect(ledger).toHaveLength(1);
});

test.for([
  ["refusal", "refusal"],
  ["a_reason_from_the_future", "model_error"],
])("stop reason %s ends the run as failed with %s", async ([stop_reason = "", expected]) => {
  const { reply, ledger } = await runOf({ turns: [{ ...say("no"), stop_reason }] });
  expect(reply).toMatchObject({ status: "failed", stop_reason: expected, agent_status: "ended" });
  expect(ledger).toHaveLength(1);
});

test("an empty answer gets one nudge; a second one ends the run without a summary", async () => {
  const { reply, ledger } = await runOf({ turns: [{ content: [] }], repeat: true });
  expect(reply).toMatchObject({ status: "succeeded", summary: "(no summary)", turns: 2 });
  expect(ledger).toHaveLength(2);
  expect(ledger[1]?.request_hash).not.toBe(ledger[0]?.request_hash);
});

test("the same call five times in a row ends the run as loop_detected", async () => {
  const { reply, ledger } = await runOf({
    turns: [list("*")],
    repeat: true,
    hand_back: say("I was going round."),
  });
  expect(reply).toMatchObject({
    status: "partial",
    stop_reason: "loop_detected",
    summary: "I was going round.",
    // The fifth was not made.
    tools_called: { glob: 4 },
  });
  expect(ledger).toHaveLength(6);
});

test.each([
  ["a cap of the run", { limits: { ...SPAWN_LIMITS, max_total_tokens: 50_000 } }],
  ["a cap in USD", { limits: { ...SPAWN_LIMITS, max_cost_usd: 0.05 } }],
  ["a budget of the agent", { budgets: { agent: { max_total_tokens: 50_000 } } }],
] as const)("results that are ten times as long as %s allows are not sent", async (_cap, options) => {
  const big = defineTool({
    name: "big",
    description: "Says much.",
    input: z.object({ n: z.int() }),
    run: async () => "r".repeat(50_000),
  });
  const asksForMuch = Array.from({ length: 40 }, (_, n) => ({
    type: "tool_use" as const,
    name: "big",
    input: { n },
  }));
  const scenario = { turns: [{ content: asksForMuch }, say("done")], hand_back: say("What I could see.") };
  const stage = await openStage({ scenario });
  const prices = { "offline-1": { input: 1, output: 5, cache_read: 0.1, cache_write: 1.25 } };
  await stage.startWorker({ tools: [big], prices });
  const reply = await stage.reply(await stage.task("work", options));
  expect(reply.turns).toBe(2);
  expect(reply.tools_called).toEqual({ big: 40 });
  expect(reply.tokens).toBeLessThan(50_000);
});
