import { expect, test } from "vitest";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import { renderReply, renderTotals } from "../../../../src/cli/terminal/reply.ts";
import { sampleReply } from "../sample-reply.ts";

const style = createStyle(false);

test("the totals of an interrupted command are those of all that was spent, also by agents without a reply", () => {
  const spent = { turns: 9, tokens: 12_345, cost_usd: 1.5 };
  expect(renderTotals([sampleReply()], { asked: 2, elapsedMs: 1_000, columns: 80, style, spent })).toEqual([
    "1 of 2 succeeded · 9 turns · 12,345 tokens · $1.50 · 1.0 s",
  ]);
});

test("the threshold of an alert is the first whole count that reaches it", () => {
  const alerts = [{ kind: "turns" as const, threshold: 2.4, value: 3 }];
  expect(renderReply(sampleReply({ alerts }), { columns: 80, style })).toContain(
    "  alert: turns reached 3 (threshold 3)",
  );
});
