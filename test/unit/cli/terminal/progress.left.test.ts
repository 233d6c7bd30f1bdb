/** What a view leaves on the terminal when it stops. */
import { expect, test } from "vitest";
import { createOutput } from "../../../../src/cli/terminal/output.ts";
import { createProgress } from "../../../../src/cli/terminal/progress.ts";
import { createManualClock } from "../manual-clock.ts";

function setUp(isTTY: boolean, leavesRows: boolean) {
  const written: string[] = [];
  const stream = { isTTY, columns: 80, rows: 24, on: () => {}, write: (text: string) => written.push(text) };
  const clock = createManualClock();
  const output = createOutput(stream, stream, { NO_COLOR: "1" });
  const progress = createProgress(output, clock, { empty: "No live agents yet.", leavesRows });
  progress.start();
  return { written, clock, progress };
}

test("a view that leaves its rows prints them once in place of its block, and draws no more", () => {
  const { written, clock, progress } = setUp(true, true);
  progress.add("A");
  clock.advance(0);
  progress.stop();
  expect(written.at(-2)).toBe("\u001b[2A\r\u001b[J");
  expect(written.at(-1)).toMatch(/^ {2}agent .*\n.* A .*\n$/);
  const count = written.length;
  progress.stop();
  expect(written).toHaveLength(count);
});

test("nothing is left without a row, by another view, or where nothing was drawn", () => {
  for (const [isTTY, leaves, adds] of [
    [true, true, false],
    [true, false, true],
    [false, true, true],
  ] as const) {
    const { written, clock, progress } = setUp(isTTY, leaves);
    if (adds) progress.add("A");
    clock.advance(0);
    progress.stop();
    expect(written.at(-1) ?? "").not.toMatch(/agent/);
  }
});
