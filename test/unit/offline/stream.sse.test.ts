import { expect, it } from "vitest";
import { brokenJson, encodeEvent, eventsOf } from "../../../src/offline/stream.ts";
import type { AnswerMessage } from "../../../src/offline/wire.ts";

const message = (content: AnswerMessage["content"]): AnswerMessage => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "m",
  content,
  container: null,
  diagnostics: null,
  stop_reason: "end_turn",
  stop_sequence: null,
  stop_details: null,
  usage: {
    input_tokens: 1,
    output_tokens: 2,
    cache_read_input_tokens: 3,
    cache_creation_input_tokens: 4,
    cache_creation: { ephemeral_5m_input_tokens: 4, ephemeral_1h_input_tokens: 0 },
    inference_geo: null,
    output_tokens_details: null,
    server_tool_use: null,
    service_tier: "standard",
    speed: null,
  },
});

it("cuts texts between characters, never inside one, and gives them back whole", () => {
  const text = "👩‍🚀".repeat(400);
  const deltas = eventsOf(message([{ type: "text", text }])).flatMap((event) =>
    event.type === "content_block_delta" ? [event.delta] : [],
  );
  const pieces = deltas.map((delta) => (delta as { text: string }).text);
  expect(pieces.join("")).toBe(text);
  expect(pieces.length).toBeGreaterThan(5);
  expect(pieces.every((piece) => piece === Buffer.from(piece).toString())).toBe(true);
});

it("opens with no content and no stop reason, and closes with both usage and stop reason", () => {
  const events = eventsOf(message([{ type: "redacted_thinking", data: "x" }]));
  expect(events[0]).toMatchObject({ type: "message_start", message: { content: [], stop_reason: null } });
  expect(events.map((event) => event.type)).toEqual([
    "message_start",
    "ping",
    "content_block_start",
    "content_block_stop",
    "message_delta",
    "message_stop",
  ]);
  expect(events.at(-2)).toMatchObject({
    delta: { stop_reason: "end_turn" },
    usage: { output_tokens: 2, cache_read_input_tokens: 3 },
  });
});

it("writes an event with its name and one line of data", () => {
  expect(encodeEvent({ type: "ping" })).toBe('event: ping\ndata: {"type":"ping"}\n\n');
});

it("breaks JSON so that it does not parse", () => {
  for (const input of [{}, { a: 1 }, { path: "x".repeat(99) }])
    expect(() => JSON.parse(brokenJson(input))).toThrow();
});
