import { expect, it } from "vitest";
import { LineSplitter } from "../../../../../src/worker/tools/mcp/lines.ts";

/** The lines that come of these pieces. */
function linesOf(pieces: readonly (string | Buffer)[]): string[] {
  const splitter = new LineSplitter();
  return pieces.flatMap((piece) => [...splitter.push(Buffer.from(piece))]);
}

it("gives each line once it has ended, whatever pieces it came in", () => {
  expect(linesOf(["a\nb", "", "c", "\n\nd\r\n", "e"])).toEqual(["a", "bc", "", "d\r"]);
  const bytes = Buffer.from("ä€😀\n");
  expect(linesOf(Array.from(bytes, (_, at) => bytes.subarray(at, at + 1)))).toEqual(["ä€😀"]);
});

it("takes a line that comes byte by byte at the cost of its length", () => {
  const splitter = new LineSplitter();
  const before = process.cpuUsage();
  for (const _ of splitter.push(Buffer.alloc(9 * 1024 * 1024, "x"))) throw new Error("no line has ended");
  for (let n = 0; n < 3_000; n++) for (const _ of splitter.push(Buffer.from("x"))) throw new Error("nor now");
  expect([...splitter.push(Buffer.from("\n"))].map(({ length }) => length)).toEqual([
    9 * 1024 * 1024 + 3_000,
  ]);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1_000).toBeLessThan(1_000);
});
