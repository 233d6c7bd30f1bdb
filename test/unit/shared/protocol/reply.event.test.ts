import { expect, test } from "vitest";
import { ProgressEvent } from "../../../../src/shared/protocol/reply.ts";

const base = { v: 1, agent_id: "researcher", name: "Researcher", run: 1, turn: 2 };

test("an event is one of a closed set, each with what it needs", () => {
  const finished = {
    ...base,
    type: "tool_finished",
    tool_use_id: "t",
    tool: "grep",
    is_error: false,
    duration_ms: 3,
  };
  expect(ProgressEvent.parse(finished)).toEqual(finished);
  for (const wrong of [
    { type: "tool_done" },
    { duration_ms: 1.5 },
    { tool: undefined },
    { v: 2 },
    { turn: -1 },
  ])
    expect(ProgressEvent.safeParse({ ...finished, ...wrong }).success, JSON.stringify(wrong)).toBe(false);
});

test("the end of a run says how, from the closed sets of replies", () => {
  const ended = { ...base, type: "ended", status: "partial", stop_reason: "max_turns" };
  expect(ProgressEvent.parse(ended)).toEqual(ended);
  expect(ProgressEvent.safeParse({ ...ended, stop_reason: "tired" }).success).toBe(false);
});
