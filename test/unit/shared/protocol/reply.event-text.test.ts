import { expect, test } from "vitest";
import { eventMembers, eventText, type RunEvent } from "../../../../src/shared/protocol/reply.ts";

const hostile = 'a"\\\n],{"type":"ended"}\u2028';
const EVENTS: readonly RunEvent[] = [
  { type: "run_started", turn: 0, max_turns: 3, worker: "w" },
  { type: "turn_started", turn: 7 },
  { type: "turn_finished", turn: 7, tokens: 1_000_000, cost_usd: 1e-7 },
  { type: "tool_started", turn: 7, tool_use_id: hostile, tool: hostile },
  { type: "tool_finished", turn: 7, tool_use_id: hostile, tool: hostile, is_error: true, duration_ms: 12 },
  { type: "tool_finished", turn: 8, tool_use_id: "t", tool: "bash", is_error: false, duration_ms: 0 },
  { type: "alert", turn: 2, alert: { kind: "turns", threshold: 1, value: 2 } },
  { type: "model_retry", turn: 2, kind: "overloaded", delay_ms: 5 },
  { type: "released", turn: 0, reason: "drain" },
  { type: "waiting", turn: 1, question: hostile },
  { type: "ended", turn: 0, status: "failed", stop_reason: "model_error" },
];

test.for(EVENTS)("an event of kind $type is read as it was written", (event) => {
  expect(eventMembers(JSON.parse(eventText(event)))).toEqual(event);
});

test("a spelling of another version is left out, and a list cannot name members of its own", () => {
  for (const stored of [["x", 1], [], [["t"], 1], null, "t", 1]) expect(eventMembers(stored)).toBeUndefined();
  expect(eventMembers(["t", 1, "more", "and more"])).toEqual({ type: "turn_started", turn: 1 });
});
