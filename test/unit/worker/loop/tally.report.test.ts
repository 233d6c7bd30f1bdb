/** Guarantee: a report that a run gave before a short last word is handed over with it. */
import { expect, test } from "vitest";
import type { ContentBlock } from "../../../../src/shared/protocol/content.ts";
import { Tally } from "../../../../src/worker/loop/tally.ts";
import { call, text, used } from "./story.ts";

const REPORT = "What was found: ".repeat(40).trim();

/** What a run that said this reports, one answer after the other. */
function reportOf(...answers: ContentBlock[][]): string {
  const tally = new Tally();
  const paid = { stopReason: "end_turn", model: "m", usage: used(1), costUsd: 0 };
  for (const [i, content] of answers.entries())
    tally.answer({ ...paid, message: 2 * i + 1, content, contentJson: JSON.stringify(content) });
  return tally.report;
}

test("the longest of the earlier messages is the report, whatever was said between it and the last one", () => {
  const report = reportOf([text(REPORT)], [text("I check once more.")], [text("As said above.")]);
  expect(report).toMatch(/^As said above\.\n\n\[an earlier message of this run/);
  expect(report.endsWith(`\n\n${REPORT}`)).toBe(true);
});

test("a message with a tool call is no last word: it stands alone", () => {
  expect(reportOf([text(REPORT)], [text("I look."), call("c1")])).toBe("I look.");
});

test("a last word is short beside a report of four times its length, and not beside less", () => {
  const last = "x".repeat(150);
  expect(reportOf([text("w".repeat(599))], [text(last)])).toBe(last);
  expect(reportOf([text("w".repeat(600))], [text(last)])).toMatch(/w{600}$/);
});
