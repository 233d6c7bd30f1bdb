import { expect, test } from "vitest";
import { renderPause, renderProviderWait } from "../../../../src/cli/local/wait.ts";
import { terminalLine } from "../../../../src/cli/terminal/log.ts";
import { createOutput, createStyle } from "../../../../src/cli/terminal/output.ts";
import { createProgress, lineAbout } from "../../../../src/cli/terminal/progress.ts";
import { newRow, rowAfter, rowWithView } from "../../../../src/cli/terminal/progress-rows.ts";
import { renderEntry, renderReply } from "../../../../src/cli/terminal/reply.ts";
import type { ProgressEvent } from "../../../../src/shared/protocol/reply.ts";
import { createManualClock } from "../manual-clock.ts";
import { sampleAgent } from "../sample-agent.ts";
import { sampleReply } from "../sample-reply.ts";

/** Text of a model or another program: it clears the screen, sets the title, and turns the line around. */
const HOSTILE = "a\u001b[2J\u001b]0;title\u0007b\u202ec\u009bd";
const HARMLESS = "abcd";
// biome-ignore lint/suspicious/noControlCharactersInRegex: these must be gone
const OBEYED = /[\u0000-\u001f\u007f-\u009f\u202e]/;
const style = createStyle(false);

function expectHarmless(lines: readonly string[]): void {
  for (const line of lines) expect(line).not.toMatch(OBEYED);
  expect(lines.join("\n")).toContain(HARMLESS);
}

const head = { v: 1, agent_id: "a", name: "A", run: 1, turn: 1 } as const;
const events: ProgressEvent[] = [
  { ...head, type: "run_continued", worker: HOSTILE },
  { ...head, type: "worker_lost", worker: HOSTILE },
  { ...head, type: "tool_started", tool: HOSTILE, tool_use_id: "t" },
  { ...head, type: "model_retry", kind: HOSTILE, delay_ms: 1, attempt: 1 },
  { ...head, type: "released", reason: HOSTILE },
  { ...head, type: "waiting", question: HOSTILE, question_id: "q" },
  { ...head, type: "waiting_for_tools", tools: [HOSTILE] },
] as unknown as ProgressEvent[];

test.each(events.map((event) => [event.type, event] as const))(
  "the line about the event %s has nothing that a terminal obeys",
  (_type, event) => expectHarmless([lineAbout(event) ?? ""]),
);

test.each(
  events.filter(({ type }) => /released|waiting/.test(type)).map((event) => [event.type, event] as const),
)("the row after the event %s has nothing that a terminal obeys", (_type, event) =>
  expectHarmless([rowAfter(newRow("A", 0), event).doing]),
);

test("a row of a record shows its question without what a terminal obeys", () => {
  const questions = [{ question_id: "q", text: HOSTILE, answer_by: "2026-11-21T00:00:00.000Z" }];
  const view = sampleAgent({ status: "waiting", questions });
  expectHarmless([rowWithView(undefined, view, { nowMs: 0, ageMs: 0 }).doing]);
});

test("the name before a plain line has nothing that a terminal obeys", () => {
  const written: string[] = [];
  const stream = { on: () => {}, write: (text: string) => written.push(text) };
  const progress = createProgress(createOutput(stream, stream, {}), createManualClock());
  progress.start();
  progress.add(HOSTILE);
  progress.apply({ ...head, name: HOSTILE, type: "turn_finished", tokens: 1, cost_usd: 0 });
  expectHarmless(written.map((text) => text.replace(/\n$/, "")));
});

test("the tools and the error of a reply have nothing that a terminal obeys", () => {
  const reply = sampleReply({ tools_called: { [HOSTILE]: 1 }, error: HOSTILE });
  expectHarmless(renderReply(reply, { columns: undefined, style }));
});

test("the id and the default of a question have nothing that a terminal obeys", () => {
  const { reply_id, parent_id, agent_id, name, run, created_at } = sampleReply();
  const about = { reply_id, parent_id, agent_id, name, run, created_at };
  const question = { ...about, kind: "question", agent_status: "waiting", text: "Which?" } as const;
  const more = { question_id: HOSTILE, default_answer: HOSTILE, answer_by: "2026-11-21T00:00:00.000Z" };
  expectHarmless(renderEntry({ ...question, ...more }, { columns: undefined, style }));
});

test("the id that another program gave an agent has nothing that a terminal obeys, in each kind of entry", () => {
  const { reply_id, parent_id, name, run, created_at } = sampleReply();
  const about = { reply_id, parent_id, agent_id: HOSTILE, name, run, created_at };
  const view = { columns: undefined, style };
  expectHarmless(renderEntry(sampleReply({ agent_id: HOSTILE }), view));
  expectHarmless(renderEntry({ ...about, kind: "message", agent_status: "running", text: "half way" }, view));
  const asked = { ...about, kind: "question", agent_status: "waiting", text: "Which?" } as const;
  expectHarmless(renderEntry({ ...asked, question_id: "q", answer_by: HOSTILE }, view));
});

test("a line of the log on a terminal has nothing that it obeys, in its message, its fields and its parent", () => {
  const shown = (entry: object) =>
    terminalLine(JSON.stringify(entry), { style, columns: 200, isDebugging: false }) ?? "";
  expectHarmless([shown({ level: 40, msg: HOSTILE })]);
  expectHarmless([shown({ level: 40, msg: "it failed", problem: HOSTILE })]);
  const run = { status: "succeeded", stop_reason: "end_turn", turns: 1, tokens: 1, cost_usd: 0, ms: 1 };
  expectHarmless([shown({ level: 30, msg: "Run", parent_id: HOSTILE, agent_id: "a", ...run })]);
});

test("what the provider said and the reason of a pause have nothing that a terminal obeys", () => {
  const times = { since: "2026-11-21T12:00:01.000Z", next_try_at: "2026-11-21T12:00:11.000Z" };
  const wait = (provider: string, reason: string) =>
    renderProviderWait({ provider, reason, ...times } as never);
  expectHarmless([wait(HOSTILE, "rate_limit")]);
  expectHarmless([wait("api.example", HOSTILE)]);
  expectHarmless([renderPause({ at: "2026-11-21T12:00:01.000Z", reason: HOSTILE })]);
});
