import { expect, test } from "vitest";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import {
  newRow,
  type Row,
  renderBoard,
  rowAfter,
  rowWithReply,
  rowWithView,
} from "../../../../src/cli/terminal/progress-rows.ts";
import { sampleAgent } from "../sample-agent.ts";
import { sampleReply } from "../sample-reply.ts";

const times = { nowMs: 0, ageMs: 0 };
const head = { v: 1, agent_id: "a", name: "A" } as const;

test("a row of an agent's next run begins with nothing of the one before", () => {
  const first = rowWithView(undefined, sampleAgent({ status: "running", run: 1 }), times);
  const working: Row = rowAfter(rowAfter(first, { ...head, run: 1, type: "turn_started", turn: 7 }), {
    ...{ ...head, run: 1, type: "tool_started", turn: 7 },
    ...{ tool: "grep", tool_use_id: "t" },
  });
  expect(rowWithView(working, sampleAgent({ status: "running", run: 1 }), times)).toMatchObject({ turns: 7 });
  const next = rowWithView(working, sampleAgent({ status: "running", run: 2 }), times);
  expect({ turns: next.turns, tools: next.tools.size, doing: next.doing }).toEqual({
    turns: 0,
    tools: 0,
    doing: "",
  });
});

test("an agent that waits for tools stands as queued, with what it waits for", () => {
  const queued = rowAfter(newRow("A", 0), {
    ...{ ...head, run: 1, type: "waiting_for_tools", turn: 0 },
    tools: ["crm"],
  });
  const row = rowWithView({ ...queued, run: 1 }, sampleAgent({ status: "waiting_for_tools", run: 1 }), times);
  expect(row).toMatchObject({ status: "queued", doing: "waits for a worker with crm" });
});

test("a board that is too low says how many are left out, and how many of those are done", () => {
  const rows = Array.from({ length: 12 }, (_, n) => ({
    ...newRow(`agent ${n}`, 0),
    status: "running" as const,
  }));
  const done = rows.map((row, n) => (n < 3 ? rowWithReply(row, sampleReply(), 1) : row));
  const lines = renderBoard(done, { columns: 80, rows: 13, nowMs: 0, style: createStyle(false) });
  expect(lines).toContain("  and 4 more agents, 3 of them done");
});
