/** Guarantee: every turn has a line with its own tools, and every call is counted under the model that was called. */
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import type { RunMetrics } from "../../../../src/worker/observe/metrics.ts";
import { Observer } from "../../../../src/worker/observe/observer.ts";

const usage = {
  input_tokens: 100,
  output_tokens: 20,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
};
const address = { tenant: "default", parentId: "planner", uid: `sa-${"0".repeat(24)}` };
const run = { ...address, agentId: "finder", name: "finder", run: 1, model: "first" };

/** Counters as a process of suspects has them: each call is passed on. */
function observed() {
  const counted: unknown[][] = [];
  const counter =
    (name: string) =>
    (...values: unknown[]) =>
      void counted.push([name, ...values]);
  const metrics: RunMetrics = {
    takenOver: counter("takenOver"),
    settled: counter("settled"),
    answered: counter("answered"),
    bought: counter("bought"),
    refused: counter("refused"),
    toolCalled: counter("toolCalled"),
  };
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const observer = new Observer(createLogger({ level: "info", destination }), metrics).observe(run);
  return { observer, counted, lines };
}

const answer = (turn: number, model: string) => ({
  turn,
  model,
  stopReason: "tool_use",
  usage,
  costUsd: turn,
  durationMs: 10.4,
});
const toolCall = async (durationMs: number, isError = false) => ({ isError, durationMs });

test("each turn is told once, with the tools that followed it, before the next call begins", async () => {
  const { observer, lines } = observed();
  observer.callBegins(1, "first");
  observer.answered(answer(1, "first"));
  await observer.tool({ id: "a", name: "grep" }, true, () => toolCall(3.6));
  await observer.tool({ id: "b", name: "made_up" }, false, () => toolCall(0, true));
  expect(lines).toEqual([]);
  observer.callBegins(2, "first");
  observer.answered(answer(2, "first"));
  observer.end({ status: "released", reason: "drain" });
  observer.end({ status: "released", reason: "drain" });
  const of = { tenant: "default", parent_id: "planner", agent_id: "finder", uid: address.uid, run: 1 };
  const tools = [
    { tool: "grep", ms: 4 },
    { tool: "made_up", ms: 0, error: true },
  ];
  expect(lines).toMatchObject([
    { ...of, msg: "Turn", turn: 1, model: "first", tokens: 120, cost_usd: 1, ms: 10, tools },
    { ...of, msg: "Turn", turn: 2, tools: [] },
  ]);
  expect(lines).toHaveLength(2);
});

test("a failed call that was billed counts for the model that was called, and a stopped one is no refusal", () => {
  const { observer, counted } = observed();
  observer.callBegins(1, "first");
  observer.callFailed("overloaded", undefined, 0);
  observer.callBegins(1, "second");
  observer.callFailed("timeout", usage, 0.5);
  observer.callFailed("aborted", usage, 0.25);
  expect(counted).toEqual([
    ["refused", "overloaded"],
    ["refused", "timeout"],
    ["bought", "second", usage, 0.5],
    ["bought", "second", usage, 0.25],
  ]);
});

test("an answer counts for the model that gave it, and a tool that no run has under one name", async () => {
  const { observer, counted } = observed();
  observer.callBegins(1, "first");
  observer.answered(answer(1, "first-20261101"));
  await observer.tool({ id: "a", name: "grep" }, true, () => toolCall(3));
  await observer.tool({ id: "b", name: "made_up" }, false, () => toolCall(1, true));
  observer.lostCallCharged("gone", usage, 2);
  expect(counted).toEqual([
    ["answered", "first-20261101", 10.4],
    ["bought", "first-20261101", usage, 1],
    ["toolCalled", "grep", false, 3],
    ["toolCalled", "unknown", true, 1],
    ["bought", "gone", usage, 2],
  ]);
});
