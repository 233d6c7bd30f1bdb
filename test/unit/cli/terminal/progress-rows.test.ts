import { expect, test } from "vitest";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import {
  activityOf,
  newRow,
  type Row,
  renderBoard,
  rowAfter,
  rowWithReply,
  rowWithView,
} from "../../../../src/cli/terminal/progress-rows.ts";
import { cells } from "../../../../src/cli/terminal/text.ts";
import type { ProgressEvent } from "../../../../src/shared/protocol/reply.ts";
import { sampleAgent } from "../sample-agent.ts";
import { sampleReply } from "../sample-reply.ts";

type Part<T> = T extends unknown ? Omit<T, "v" | "agent_id" | "name" | "run"> : never;
const event = (part: Part<ProgressEvent>): ProgressEvent => ({
  v: 1,
  agent_id: "a",
  name: "A",
  run: 1,
  ...part,
});
const after = (row: Row, ...events: Part<ProgressEvent>[]) => events.map(event).reduce(rowAfter, row);
const tool = (id: string, name: string, type: "tool_started" | "tool_finished"): Part<ProgressEvent> =>
  type === "tool_started"
    ? { type, turn: 1, tool_use_id: id, tool: name }
    : { type, turn: 1, tool_use_id: id, tool: name, is_error: false, duration_ms: 1 };

const working = () =>
  after(
    newRow("Testing framework", 0),
    { type: "run_started", turn: 0, max_turns: 30, worker: "w" },
    { type: "turn_started", turn: 1 },
    { type: "turn_finished", turn: 1, tokens: 1_000, cost_usd: 0.01 },
    { type: "turn_started", turn: 2 },
    { type: "turn_finished", turn: 2, tokens: 234, cost_usd: 0.002 },
    tool("1", "grep", "tool_started"),
  );
const view = (columns: number, rows = 24) => ({ columns, rows, nowMs: 3_000, style: createStyle(false) });

test("an agent's events add up to its turn, tokens, cost and current tool", () => {
  expect(working()).toMatchObject({
    status: "running",
    turns: 2,
    maxTurns: 30,
    tokens: 1_234,
    costUsd: 0.012,
  });
  expect(activityOf(working())).toBe("grep");
});

test("several tools at a time are counted, and leave one by one", () => {
  const two = after(working(), tool("2", "grep", "tool_started"));
  expect(activityOf(two)).toBe("grep ×2");
  const three = after(two, tool("3", "glob", "tool_started"));
  expect(activityOf(three)).toBe("grep +2");
  const none = after(three, ...["1", "2", "3"].map((id) => tool(id, "", "tool_finished")));
  expect(activityOf(none)).toBe("");
});

test("what a model calls its tools, and why a run was handed back, is shown without control characters", () => {
  const hostile = "\u001b[2Jgr\u001b]0;owned\u0007ep\u202e\n";
  const atWork = after(working(), tool("1", hostile, "tool_started"));
  const released = after(working(), { type: "released", turn: 0, reason: hostile });
  for (const row of [atWork, released]) {
    expect(activityOf(row)).toBe("grep");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these must be gone
    expect(renderBoard([row], view(100)).join("")).not.toMatch(/[\u0000-\u001f\u202e]/);
  }
});

test("waiting for the model, writing, retrying and being handed back are told apart", () => {
  const doing = (part: Part<ProgressEvent>) => activityOf(after(newRow("A", 0), part));
  expect(doing({ type: "turn_started", turn: 1 })).toBe("thinking");
  expect(doing({ type: "text_delta", turn: 1, text: "x" })).toBe("writing");
  expect(doing({ type: "model_retry", turn: 1, kind: "overloaded", delay_ms: 5_000 })).toBe("retry in 5s");
  const released = after(working(), { type: "released", turn: 0, reason: "drain" });
  expect([released.status, activityOf(released)]).toEqual(["queued", "drain"]);
});

test("a reply overwrites what the events came to, and nothing comes after it", () => {
  const over = rowWithReply(working(), sampleReply({ status: "partial", stop_reason: "max_turns" }), 5_000);
  expect(over).toMatchObject({
    status: "partial",
    turns: 3,
    tokens: 4_812,
    costUsd: 0.0123,
    endedAtMs: 5_000,
  });
  expect(activityOf(over)).toBe("max_turns");
  expect(after(over, { type: "turn_started", turn: 9 })).toBe(over);
});

test("at 80 columns the board shows every column, aligned", () => {
  const lines = renderBoard([working(), newRow("Lua scripts", 1_000)], view(80));
  expect(lines).toEqual([
    "  agent              status     turns   tokens     cost     age  doing",
    "● Testing framework  running     2/30    1,234  $0.0120      3s  grep",
    "○ Lua scripts        queued                                  2s",
    "  0 of 2 agents done · 2 turns · 1,234 tokens · $0.0120",
  ]);
});

test("while Redis is away the board says since when its rows are old", () => {
  const lines = renderBoard([working()], { ...view(80), awaySinceMs: 1_000 });
  expect(lines.at(-1)).toBe("  Redis has not answered for 2s: the rows show the last known state.");
});

test("an age stands still once the agent is over", () => {
  const [, line] = renderBoard([rowWithReply(working(), sampleReply(), 2_000)], view(80));
  expect(line).toContain("    2s");
});

test("no line ever reaches the last column, whatever the width, the names and the colours", () => {
  const names = [
    "x",
    "数据收集器".repeat(9),
    "A very long name that says a lot about its agent and then some more",
  ];
  const rows = names.map((name) => ({ ...working(), name }));
  for (let columns = 1; columns <= 220; columns += 1) {
    for (const line of renderBoard(rows, view(columns))) {
      expect(cells(line), `${columns} columns: ${line}`).toBeLessThan(Math.max(columns, 16));
    }
  }
});

test("a narrow terminal loses columns one by one and keeps name and status to the last", () => {
  const titleAt = (columns: number) => renderBoard([working()], view(columns))[0]?.trim().split(/\s+/);
  expect(titleAt(60)).toEqual(["agent", "status", "turns", "tokens", "cost", "age"]);
  expect(titleAt(50)).toEqual(["agent", "status", "turns", "tokens", "age"]);
  expect(titleAt(28)).toEqual(["agent", "status"]);
});

test("a change of figures moves no column", () => {
  const before = renderBoard([working()], view(80))[1] ?? "";
  const grown = { ...working(), turns: 12, tokens: 987_654, costUsd: 12.5 };
  const then = renderBoard([grown], view(80))[1] ?? "";
  expect(then).toBe("● Testing framework  running    12/30  987,654   $12.50      3s  grep");
  expect(then.indexOf("grep")).toBe(before.indexOf("grep"));
});

test("more agents than lines: those at work stay, the others are counted", () => {
  const over = rowWithReply(working(), sampleReply(), 1);
  const rows = [...Array.from({ length: 8 }, () => over), { ...working(), name: "busy" }, newRow("late", 0)];
  const lines = renderBoard(rows, view(80, 6));
  expect(lines).toHaveLength(4);
  expect(lines.join("\n")).toMatch(/busy.*\n.*late.*\n {2}and 8 more agents, 8 of them done$/);
});

test("without agents there is no board", () => {
  expect(renderBoard([], view(80))).toEqual([]);
});

test("a row follows what a look at its agent shows, and keeps what only events tell", () => {
  const at = { nowMs: 10_000, ageMs: 4_000 };
  const first = rowWithView(undefined, sampleAgent({ status: "running", run: 1 }), at);
  expect(first).toMatchObject({
    name: "data_collector",
    status: "running",
    maxTurns: 20,
    startedAtMs: 6_000,
  });
  const working = after(first, { type: "turn_started", turn: 1 }, tool("1", "grep", "tool_started"));
  const { turns, tokens, cost_usd } = sampleReply();
  const seen = rowWithView(working, sampleAgent({ status: "running", run: 1, progress: sampleReply() }), at);
  expect(seen).toMatchObject({ turns, tokens, costUsd: cost_usd, startedAtMs: 6_000 });
  expect(activityOf(seen)).toBe("grep");
  const idle = rowWithView(seen, sampleAgent({ status: "idle", run: 1, progress: sampleReply() }), at);
  expect(idle).toMatchObject({ status: "idle", tokens });
  expect(activityOf(idle)).toBe("");
});

test("the next run of an agent is counted from nothing", () => {
  const seen = rowWithView(undefined, sampleAgent({ run: 1, progress: sampleReply() }), {
    nowMs: 0,
    ageMs: 0,
  });
  const next = rowAfter(seen, {
    ...event({ type: "run_started", turn: 0, max_turns: 20, worker: "w" }),
    run: 2,
  });
  expect(next).toMatchObject({ status: "running", run: 2, turns: 0, tokens: 0, costUsd: 0 });
});

test("an event of a run that is over changes nothing once a look has shown the next run", () => {
  const seen = rowWithView(undefined, sampleAgent({ status: "queued", run: 2 }), { nowMs: 0, ageMs: 0 });
  expect(after(seen, { type: "turn_finished", turn: 7, tokens: 50, cost_usd: 0.5 })).toEqual(seen);
});

test("colour is for glyphs: words look the same on dark and on light", () => {
  const coloured = renderBoard([working()], { ...view(120), style: createStyle(true) });
  expect(coloured[1]).toContain("\u001b[36m●\u001b[39m Testing framework  running ");
});

test("an agent that asks waits, and its row says what for", () => {
  const waiting = after(working(), { type: "waiting", turn: 2, question: "Which\ncolour?" });
  expect(waiting).toMatchObject({ status: "waiting", turns: 2 });
  expect(activityOf(waiting)).toBe("asks: Which colour?");
  const questions = [{ question_id: "3/a", text: "Which colour?", answer_by: "2026-11-21T00:00:00.000Z" }];
  const seen = rowWithView(undefined, sampleAgent({ status: "waiting", questions }), { nowMs: 0, ageMs: 0 });
  expect(activityOf(seen)).toBe("asks: Which colour?");
  expect(after(seen, { type: "run_started", turn: 0, max_turns: 9, worker: "w" }).status).toBe("running");
});
