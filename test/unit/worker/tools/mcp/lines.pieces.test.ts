/** What a splitter holds of a line that has no end yet. */
import { expect, it } from "vitest";
import { LineSplitter } from "../../../../../src/worker/tools/mcp/lines.ts";

it("keeps the bytes of a line and not its pieces, each of which takes hundreds of bytes more", () => {
  const splitter = new LineSplitter();
  const piece = Buffer.from("a");
  const lines: string[] = [];
  for (const character of "abcdefghij\nkl\n") {
    piece.write(character);
    lines.push(...splitter.push(piece));
  }
  expect(lines).toEqual(["abcdefghij", "kl"]);
});
