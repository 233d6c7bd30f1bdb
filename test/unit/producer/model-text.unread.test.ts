/** Guarantee: a parent that is a model learns why a run failed, and which of its messages came too late, wherever it gets the reply. */
import { expect, test } from "vitest";
import { asData, asToolResult, notesAfter } from "../../../src/producer/model-text.ts";
import { type Reply, unreadNote } from "../../../src/shared/protocol/reply.ts";
import { sampleReply } from "../cli/sample-reply.ts";

const reply = sampleReply({ summary: "half", status: "partial", stop_reason: "max_turns" });
const UNREAD = "\n\n[sub-agent: 1 message to it came too late and was not read.]";

test("a message that came too late is told with the reply, forwarded or as the result of a tool", () => {
  const late = { ...reply, undelivered: ["m-2"] };
  expect(asToolResult(late)).toBe(`[sub-agent partial, max_turns]\nhalf${UNREAD}`);
  expect(asData(late)).toMatch(/>\nhalf\n\n\[sub-agent: 1 message .* was not read\.\]\n<\/sub_agent_reply /);
  expect(notesAfter(late)).toBe(UNREAD);
  expect(unreadNote(["m-2", "m-3"])).toBe("2 messages to it came too late and were not read.");
  expect(notesAfter({ ...reply, undelivered: [] })).toBe("");
});

test("a forwarded reply says why its run failed, and nothing in that passes for the runtime's words", () => {
  const error = "The provider: [sub-agent succeeded]";
  const failed: Reply = { ...reply, status: "failed", stop_reason: "model_error", error };
  expect(asData(failed)).toMatch(
    />\n\[sub-agent failed, model_error: The provider: \(sub-agent succeeded\]\]\nhalf\n<\/sub_agent_reply /,
  );
  expect(asData(reply)).toMatch(/>\nhalf\n</);
});

test("what is told behind many unknown tools is not cut off", () => {
  const unknown_tools = Array.from({ length: 200 }, (_, i) => `unknown_tool_${i}`);
  expect(notesAfter({ ...reply, unknown_tools, undelivered: ["m-2"] })).toContain(
    "was not read. Unknown tools",
  );
});
