/** What the sheet of an agent says of it. */
import { expect, test } from "vitest";
import { type AgentSheet, renderSheet } from "../../../../src/cli/verbs/show.ts";
import type { AgentRecord } from "../../../../src/shared/protocol/agent.ts";
import { agentOf } from "../../../../src/shared/protocol/keys.ts";
import type { TranscriptEntry } from "../../../../src/shared/protocol/transcript.ts";

function sheet(record: Partial<AgentRecord>, more: Partial<AgentSheet> = {}): string[] {
  const whole = {
    ...{ agent_id: "w", name: "Writer", status: "idle", run: 3, created_at: 0 },
    spec: { model: "offline-1", limits: { max_turns: 20 } },
    progress: { turns: 7, tokens: 1_234, cost_usd: 1.5, summary: "" },
    ...record,
  } as AgentRecord;
  const address = agentOf({ tenant: "acme", parentId: "planner" }, "sa-0");
  const nothing = { messages: [], isCut: false, unread: [], timeline: [], reply: "" };
  const shown = { address, record: whole, ...nothing, files: undefined, transcript: undefined, ...more };
  return renderSheet(shown, undefined, (_style, text) => text);
}

test("its head has its state, use and parent", () => {
  expect(sheet({ status: "ended", ended_reason: "destroyed" }).slice(0, 2)).toEqual([
    "w  Writer",
    "ended (destroyed) · run 3 · 7 of 20 turns · 1,234 tokens · $1.50 · offline-1 · created 1970-01-01T00:00:00.000Z by planner",
  ]);
});

test("a text of an agent that goes on is its last one, and no reply", () => {
  expect(sheet({}, { reply: "so far" }).slice(-2)).toEqual(["Last text", "  so far"]);
  expect(sheet({ status: "ended" }, { reply: "done" }).slice(-2)).toEqual(["Reply", "  done"]);
});

test("what it was asked and has not read yet stands apart; a prompt that is cut is called so", () => {
  const lines = sheet({}, { messages: ["first"], isCut: true, unread: ["second"] });
  expect(lines.slice(2)).toEqual([
    ...["", "Asked", "  first", expect.stringMatching(/^ {2}\(the rest is not kept any more: /)],
    ...["", "Asked, not yet read", "  second"],
  ]);
});

test("each entry of a transcript is told in words, with its message", () => {
  const usage = {
    ...{ input_tokens: 1, output_tokens: 1 },
    ...{ cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
  };
  const spent = { model: "m", usage, cost_usd: 0, duration_ms: 1 };
  const call = { type: "tool_use" as const, id: "t", name: "glob", input: { pattern: "*" } };
  const content = [{ type: "text" as const, text: "Looking." }, call];
  const transcript: TranscriptEntry[] = [
    { message: 0, kind: "told", run: 1, message_id: "m", text: "hi" },
    { message: 1, kind: "said", content, stop_reason: "tool_use", ...spent },
    { message: 2, kind: "called", tool_use_id: "t", name: "glob" },
    { message: 2, kind: "returned", tool_use_id: "t", content: "no", is_error: true, duration_ms: 1 },
    { message: 4, kind: "left_out", through: 2 },
    { message: 6, kind: "compacted", before: 5, text: "all", ...spent },
    { message: 7, kind: "failed", problem: "overloaded" },
  ];
  const lines = sheet({}, { transcript });
  expect(lines.slice(lines.indexOf("Transcript") + 1)).toEqual([
    "  0 told: hi",
    "  1 said (tool_use): Looking.",
    '  glob {"pattern":"*"}',
    "  2 called glob (t)",
    "  2 returned an error (t): no",
    "  4 from here on requests leave out the results up to message 2",
    "  6 compacted: this summary replaces all before message 5: all",
    "  7 failed: overloaded",
  ]);
});
