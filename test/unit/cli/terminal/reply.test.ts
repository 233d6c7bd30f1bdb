import { expect, test } from "vitest";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import { renderEntry, renderReply, renderTotals } from "../../../../src/cli/terminal/reply.ts";
import { cells } from "../../../../src/cli/terminal/text.ts";
import { sampleReply } from "../sample-reply.ts";

const style = createStyle(false);

test("a reply shows who, how it ended, the question, the text, and what it took", () => {
  const view = { columns: 80, style, question: "Which testing framework?" };
  expect(renderReply(sampleReply(), view)).toEqual([
    "✔ Testing framework  succeeded",
    "  Which testing framework?",
    "  It uses vitest.",
    "  3 turns · 4,812 tokens · $0.0123 · 1.2 s · glob ×1, read_file ×2",
    "",
  ]);
});

test("output is shown indented in place of its text, whole also where the text was shortened, and cannot control the terminal", () => {
  const output = { answer: "a\u009bb\u202ec", found: [] };
  const reply = sampleReply({ summary: '{"answer":"a [… cut …]', truncated: true, output });
  expect(renderReply(reply, { columns: undefined, style }).slice(1)).toEqual([
    "  {",
    '    "answer": "abc",',
    '    "found": []',
    "  }",
    "  3 turns · 4,812 tokens · $0.0123 · 1.2 s · glob ×1, read_file ×2",
    "",
  ]);
  expect(renderReply(sampleReply({ output: null }), { columns: 80, style })[1]).toBe("  null");
});

test("of a question as long as a book only the beginning is shown", () => {
  const view = { columns: 120, style, question: "why ".repeat(60_000) };
  const lines = renderReply(sampleReply(), view);
  expect(lines).toHaveLength(7);
  expect(lines.join("")).toContain("…");
});

test("a cap, an error, an alert and a shortened text are said", () => {
  const reply = sampleReply({
    status: "partial",
    stop_reason: "max_turns",
    error: "the model\nsaid no",
    alerts: [{ kind: "turns", threshold: 24, value: 24 }],
    truncated: true,
    tools_called: {},
    unknown_tools: ["crm_lookup", "bel\u0007l"],
  });
  const lines = renderReply(reply, { columns: 80, style });
  expect(lines[0]).toBe("◐ Testing framework  partial (max_turns)");
  expect(lines).toContain("  the model said no");
  expect(lines).toContain("  alert: turns reached 24 (threshold 24)");
  expect(lines).toContain("  without crm_lookup, bell: its worker has no such tool");
  expect(lines.at(-2)).toMatch(/no tools · text shortened$/);
});

test("an alert has readable numbers: USD without the noise of a product, and counts whole", () => {
  const alerts = [
    { kind: "cost_usd" as const, threshold: 0.003 * 0.8, value: 0.003155 },
    { kind: "turns" as const, threshold: 0.8, value: 1 },
    { kind: "tokens" as const, threshold: 12_345.6, value: 20_000 },
  ];
  const lines = renderReply(sampleReply({ alerts }), { columns: 80, style });
  expect(lines.filter((line) => line.includes("alert"))).toEqual([
    "  alert: cost_usd reached 0.003155 (threshold 0.0024)",
    "  alert: turns reached 1 (threshold 1)",
    "  alert: tokens reached 20,000 (threshold 12,346)",
  ]);
});

test("a long text is wrapped on a terminal and left alone in a pipe", () => {
  const summary = "word ".repeat(60).trim();
  const wrapped = renderReply(sampleReply({ summary }), { columns: 40, style });
  for (const line of wrapped) expect(cells(line)).toBeLessThan(40);
  const piped = renderReply(sampleReply({ summary }), { columns: undefined, style });
  expect(piped).toContain(`  ${summary}`);
});

test("what a model writes cannot control the terminal", () => {
  const lines = renderReply(sampleReply({ summary: "\u001b[2J\u001b]0;x\u0007hi", name: "a\u009bb" }), {
    columns: 80,
    style,
  });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these must be gone
  expect(lines.join("")).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
});

test("the totals sum over all replies, in two lines on a narrow terminal", () => {
  const replies = [sampleReply(), sampleReply({ status: "failed", stop_reason: "refusal", turns: 1 })];
  const totals = { asked: 3, elapsedMs: 2_500, style };
  expect(renderTotals(replies, { ...totals, columns: 80 })).toEqual([
    "1 of 3 succeeded · 4 turns · 9,624 tokens · $0.0246 · 2.5 s",
  ]);
  expect(renderTotals(replies, { ...totals, columns: 50 })).toEqual([
    "1 of 3 succeeded",
    "  4 turns · 9,624 tokens · $0.0246 · 2.5 s",
  ]);
});

test("a long name leaves room for how it ended", () => {
  const reply = sampleReply({ name: "name ".repeat(19).trim(), status: "partial", stop_reason: "max_turns" });
  const [head = ""] = renderReply(reply, { columns: 50, style });
  expect(head).toMatch(/^◐ name .*… {2}partial \(max_turns\)$/);
  expect(cells(head)).toBeLessThan(50);
});

test("an entry of the channel shows the id to send to; an interim message is told apart from a reply", () => {
  const view = { columns: 80, style };
  expect(renderEntry(sampleReply(), view)[0]).toBe("✔ Testing framework (testing_framework)  succeeded");
  const { reply_id, parent_id, agent_id, name, run, created_at } = sampleReply();
  const head = { reply_id, parent_id, agent_id, name, run, created_at, agent_status: "running" as const };
  expect(renderEntry({ ...head, kind: "message", text: "half\u001b[2J way" }, view)).toEqual([
    "✉ Testing framework (testing_framework)  message",
    "  half way",
    "",
  ]);
});

test("a question shows who asks, the question, its id and until when, and its default", () => {
  const { reply_id, parent_id, agent_id, name, run, created_at } = sampleReply();
  const question = {
    ...{ reply_id, parent_id, agent_id, name, run, created_at },
    agent_status: "waiting" as const,
    kind: "question" as const,
    question_id: "1/toolu_1",
    text: "Which\u001b[31m colour?",
    default_answer: "white",
    answer_by: "2026-11-10T01:00:00.000Z",
  };
  expect(renderEntry(question, { columns: undefined, style })).toEqual([
    "? Testing framework (testing_framework)  question",
    "  Which colour?",
    "  question 1/toolu_1 · answer by 2026-11-10T01:00:00.000Z, by default: white",
    "",
  ]);
  expect(renderEntry(question, { columns: undefined, style, closed: "answered" })[2]).toBe(
    "  question 1/toolu_1 · answered",
  );
});
