/**
 * Guarantee: whatever shape an answer comes in, its call counts. `max_turns` bounds what is bought, five calls in a row that bring
 * nothing end the run, and the reply tells what had been found before.
 */
import { expect, test } from "vitest";
import type { ProgressEvent } from "../../../src/shared/protocol/reply.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openStage } from "../../stage/stage.ts";
import {
  messageEnd,
  messageStart,
  type Script,
  send,
  startProvider,
  stream,
  toolBlock,
} from "../../unit/worker/model/scripted-provider.ts";

const FOUND = "The key stands in settings.ts.";
const MOST_IN_VAIN = 5;
/** Bounds an answer to some 100 KB. */
const MAX_TOKENS = 1_000;

const call = { type: "tool_use", id: "toolu_1", name: "glob", input: { pattern: "*" } };
const asks = { stop_reason: "tool_use" };

const brokenJson: Script = (response) =>
  stream(response, messageStart() + toolBlock(0, '{"pattern": "*') + messageEnd("tool_use"));
const list: Script = (response) => send(response, [{ ...call, input: ["*"] }], asks);
const emptyId: Script = (response) => send(response, [{ ...call, id: "" }], asks);
const noStopReason: Script = (response) =>
  send(response, [{ type: "text", text: "half a" }], { stop_reason: null });
const tooLarge: Script = (response) => send(response, [{ type: "text", text: "x".repeat(200_000) }]);
const breaksOff: Script = (response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(messageStart(), () => response.destroy());
};

/** The task whose model finds something in its first answer, and then answers in one shape again and again. */
async function answeredBy(shape: Script, maxTurns?: number) {
  const provider = await startProvider((response, request) => {
    if (provider.received.length > 1) shape(response, request);
    else send(response, [{ type: "text", text: FOUND }, call], asks);
  });
  const stage = await openStage();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
  closeAtEnd(() => model.stop());
  await stage.startWorker({ model, random: () => 0 });
  const parent = stage.parent();
  const limits = { max_tokens: MAX_TOKENS, ...(maxTurns !== undefined && { max_turns: maxTurns }) };
  const reply = await parent.task({ prompt: "find the key", limits });
  expect((await parent.usage()).tokens).toBe(reply.tokens);
  expect(toldOf(await parent.timeline(reply.agent_id)).tokens).toBe(reply.tokens);
  return { reply, calls: provider.received.length };
}

/** What events tell of the calls: their tokens, and their beginnings and ends with the number of the turn. */
function toldOf(events: readonly ProgressEvent[]) {
  let tokens = 0;
  const turns: string[] = [];
  for (const event of events) {
    if (event.type === "turn_finished") tokens += event.tokens;
    if (event.type === "turn_started" || event.type === "turn_finished")
      turns.push(`${event.type} ${event.turn}`);
  }
  return { tokens, turns };
}

test.each([
  ["broken JSON in a tool input", brokenJson],
  ["a list as a tool input", list],
  ["an empty tool id", emptyId],
  ["no stop reason", noStopReason],
  ["an answer too large", tooLarge],
  ["a stream that breaks after its start", breaksOff],
])(
  "under max_turns 3 a model that answers with %s is called three times, and the reply tells what it had found",
  async (_, shape) => {
    const { reply, calls } = await answeredBy(shape, 3);
    expect(calls).toBe(3);
    expect(reply).toMatchObject({ status: "partial", stop_reason: "max_turns", summary: FOUND });
    // What each call came to by its bill.
    expect(reply.tokens).toBeGreaterThanOrEqual(3 * 15);
  },
);

test.each([
  ["broken JSON in a tool input", brokenJson],
  ["a list as a tool input", list],
  ["no stop reason", noStopReason],
  ["an answer too large", tooLarge],
  ["a stream that breaks after its start", breaksOff],
])("five answers in a row with %s end the run typed, with what it had found", async (_, shape) => {
  const { reply, calls } = await answeredBy(shape);
  expect(calls).toBe(1 + MOST_IN_VAIN);
  expect(reply).toMatchObject({ status: "failed", stop_reason: "model_error", summary: FOUND });
  expect(reply.error).toMatch(/^Five paid model calls in a row/);
  expect(reply.tokens).toBeGreaterThanOrEqual((1 + MOST_IN_VAIN) * 15);
});

test("those who watch are told what a call cost that was cut off for its time, and of the call that follows it", async () => {
  const provider = await startProvider((response) => {
    if (provider.received.length > 1) send(response, [{ type: "text", text: FOUND }]);
  });
  const stage = await openStage();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
  closeAtEnd(() => model.stop());
  await stage.startWorker({ model });
  const parent = stage.parent();
  const reply = await parent.task({ prompt: "x".repeat(4_000), limits: { max_duration_ms: 4_000 } });
  expect(reply).toMatchObject({ status: "partial", stop_reason: "max_duration", summary: FOUND });
  const events = await parent.timeline(reply.agent_id);
  const told = toldOf(events);
  expect(told.tokens).toBe(reply.tokens);
  // Its worker goes on at once.
  expect(events.map(({ type }) => type)).not.toContain("released");
  expect(told.turns).toEqual(["turn_started 1", "turn_finished 1", "turn_started 1", "turn_finished 1"]);
});
