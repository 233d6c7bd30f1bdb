import { expect, test } from "vitest";
import { terminalLine } from "../../../../src/cli/terminal/log.ts";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import { cells } from "../../../../src/cli/terminal/text.ts";

const style = createStyle(false);
const names = {
  level: 30,
  time: 1,
  tenant: "default",
  parent_id: "planner-7",
  agent_id: "reviewer",
  uid: "sa-1",
};
const run = { ...names, run: 1, status: "succeeded", turns: 3, tokens: 5190, cost_usd: 0.02, ms: 7904 };
const shown = (entry: object, isDebugging = false) =>
  terminalLine(JSON.stringify(entry), { style, columns: 120, isDebugging });

test("a run is one calm line, a turn none", () => {
  expect(shown({ ...run, stop_reason: "end_turn", msg: "Run" })).toBe(
    "✔ reviewer  succeeded · 3 turns · 5,190 tokens · $0.0200 · 7.9 s · for planner-7",
  );
  expect(shown({ ...run, status: "failed", stop_reason: "worker_lost", msg: "Run" })).toMatch(
    /^✖ reviewer {2}failed \(worker_lost\) · 3 turns/,
  );
  expect(shown({ ...names, run: 1, turn: 2, msg: "Turn" })).toBeUndefined();
});

test("an operator who debugs sees both with all their fields, and everything else looks as before", () => {
  expect(shown({ ...names, run: 1, turn: 2, msg: "Turn" }, true)).toMatch(/^info {3}Turn {2}tenant=default/);
  expect(shown({ ...run, stop_reason: "end_turn", msg: "Run" }, true)).toMatch(/^info {3}Run /);
  expect(shown({ level: 40, msg: "it failed", role: "worker" })).toBe("warn   it failed  role=worker");
  expect(terminalLine("no JSON\n", { style, columns: 80, isDebugging: false })).toBe("no JSON");
});

test("names that a model or a parent chose reach the terminal without control characters", () => {
  const hostile = { ...run, agent_id: "\u001b[2Jx\ny", stop_reason: "end_turn", msg: "Run" };
  expect(shown(hostile)).toMatch(/^✔ x y {2}succeeded/);
});

test("the line of a run never wraps", () => {
  const long = {
    ...run,
    agent_id: "x".repeat(64),
    parent_id: "y".repeat(64),
    stop_reason: "end_turn",
    msg: "Run",
  };
  for (const columns of [40, 80]) {
    const line = terminalLine(JSON.stringify(long), { style, columns, isDebugging: false }) ?? "";
    expect(cells(line)).toBeLessThan(columns);
    expect(line).toMatch(/^✔ x+… {2}succ/);
  }
});
