/** What the sheet of an agent says of its wait. */
import { expect, test } from "vitest";
import { type AgentSheet, renderSheet } from "../../../../src/cli/verbs/show.ts";
import type { AgentRecord } from "../../../../src/shared/protocol/agent.ts";
import { agentOf } from "../../../../src/shared/protocol/keys.ts";

function sheet(record: Partial<AgentRecord>, reply = ""): string[] {
  const whole = {
    ...{ agent_id: "w", name: "Writer", run: 1, created_at: 0, deadline: 0 },
    spec: { model: "offline-1", limits: { max_turns: 20 } },
    ...record,
  } as AgentRecord;
  const address = agentOf({ tenant: "acme", parentId: "planner" }, "sa-0");
  const nothing = { messages: [], isCut: false, unread: [], timeline: [] };
  const shown = { address, record: whole, ...nothing, reply, files: undefined, transcript: undefined };
  return renderSheet(shown satisfies AgentSheet, undefined, (_style, text) => text).slice(2);
}

test("an agent that asks shows its question, and until when and with which default", () => {
  const questions = [{ question_id: "1/a", text: "Which\n\u001b[31mcolour?", default_answer: "red" }];
  const asked = [
    ...["  Which", "  colour?"],
    "  question 1/a · answer by 2026-11-21T00:00:00.000Z, by default: red",
  ];
  const deadline = Date.parse("2026-11-21T00:00:00.000Z");
  expect(sheet({ status: "waiting", questions, deadline })).toEqual(["", "Waits", ...asked]);
  expect(sheet({ status: "ended", questions, deadline })).toEqual([]);
});

test("an agent whose provider limits its calls shows when the next attempt is", () => {
  const provider_wait = { provider: "api.example", reason: "overloaded" } as const;
  const not_before = Date.parse("2026-11-21T12:00:11.000Z");
  const provider_wait_since = not_before - 10_000;
  expect(sheet({ status: "queued", provider_wait, provider_wait_since, not_before })).toEqual([
    ...["", "Waits"],
    "  api.example fails or limits calls (overloaded): the run has waited since 12:00:01Z, the next attempt is at 12:00:11Z.",
  ]);
});

test("the words for a missing summary are no last text", () => {
  expect(sheet({ status: "waiting" }, "(no summary)")).toEqual([]);
  expect(sheet({ status: "ended" }, "(no summary)")).toEqual(["", "Reply", "  (no summary)"]);
});
