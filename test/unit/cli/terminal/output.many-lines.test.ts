/** Guarantee: what has more lines than a call has arguments is printed all the same. */
import { expect, test } from "vitest";
import { createOutput } from "../../../../src/cli/terminal/output.ts";
import { newRow, renderBoard } from "../../../../src/cli/terminal/progress-rows.ts";
import { renderReply } from "../../../../src/cli/terminal/reply.ts";
import { sampleReply } from "../sample-reply.ts";

test("a reply whose output has 150,000 lines is printed to its end", () => {
  const written: string[] = [];
  const stream = { on: () => {}, write: (text: string) => void written.push(text) };
  const output = createOutput(stream, stream, {});
  const reply = sampleReply({ output: Array.from({ length: 150_000 }, () => 1) });
  output.result(renderReply(reply, { columns: undefined, style: output.style }));
  expect(written.join("").split("\n").length).toBeGreaterThan(150_000);
});

test("a board of 150,000 agents is drawn", () => {
  const rows = Array.from({ length: 150_000 }, (_, n) => newRow(`a${n}`, 0));
  const lines = renderBoard(rows, { columns: 80, rows: 20, nowMs: 0, style: (_, text) => text });
  expect(lines.length).toBeLessThanOrEqual(20);
});
