import { expect, test } from "vitest";
import { cells } from "../../../../src/cli/terminal/text.ts";
import { type AgentSheet, renderSheet } from "../../../../src/cli/verbs/show.ts";
import type { AgentRecord } from "../../../../src/shared/protocol/agent.ts";
import { agentOf } from "../../../../src/shared/protocol/keys.ts";

test("a long line of the timeline is wrapped below its text on a terminal, and one line in a file", () => {
  const record = {
    ...{ agent_id: "asker", name: "Asker", status: "waiting", run: 1, created_at: 0 },
    spec: { model: "offline-1", limits: { max_turns: 20 } },
  } as AgentRecord;
  const question = `Which of the ${"many ".repeat(20)}two is it?`;
  const sheet: AgentSheet = {
    ...{
      record,
      address: agentOf({ tenant: "default", parentId: "cli" }, "sa-0"),
      messages: [],
      isCut: false,
    },
    ...{ unread: [], reply: "", files: undefined, transcript: undefined },
    timeline: [
      {
        at: "2026-11-01T12:00:00.000Z",
        number: "1",
        events: [
          {
            v: 1,
            type: "waiting",
            agent_id: "asker",
            name: "Asker",
            run: 1,
            turn: 1,
            question,
            question_id: "q",
          },
        ],
      },
    ] as unknown as AgentSheet["timeline"],
  };
  const lines = renderSheet(sheet, 40, (_style, text) => text);
  const timeline = lines.slice(lines.indexOf("Timeline") + 1);
  expect(timeline.length).toBeGreaterThan(3);
  expect(timeline[0]).toMatch(/^ {2}12:00:00 {2}asks: Which of the/);
  expect(timeline[1]).toMatch(/^ {12}many/);
  for (const line of timeline) expect(cells(line), line).toBeLessThan(40);
  expect(renderSheet(sheet, undefined, (_style, text) => text)).toContain(`  12:00:00  asks: ${question}`);
});
