/** Guarantee: a terminal obeys no text of others, whichever verb shows it and however it is shown. */
import { expect, test } from "vitest";
import { createOutput, type Output, type OutputStream } from "../../../../src/cli/terminal/output.ts";

const HOSTILE = "a\u001b]0;title\u0007b\u001b[2Jc\u001b[8md\u009b31me\u0008f\u202eg";

/** Writes with `write` to streams that are terminals or not; returns all that they got. */
function written(isTTY: boolean, write: (output: Output) => void): string {
  const texts: string[] = [];
  const stream: OutputStream = {
    isTTY,
    columns: 80,
    rows: 24,
    write: (text) => texts.push(text),
    on: () => {},
  };
  write(createOutput(stream, stream, {}));
  return texts.join("");
}

test.each<[string, (output: Output) => void, string]>([
  ["a result", (output) => output.result(HOSTILE), "abcd31mefg\n"],
  ["a note", (output) => output.note(HOSTILE), "abcd31mefg\n"],
  ["the block", (output) => output.block([HOSTILE]), "abcd31mefg\u001b[K\n\u001b[J"],
])("%s reaches a terminal without what it would obey", (_name, write, shown) => {
  expect(written(true, write)).toBe(shown);
});

test("our own colours stay around it", () => {
  const shown = written(true, (output) =>
    output.note(`${output.style("red", HOSTILE)} and ${output.style("dim", "more")}`),
  );
  expect(shown).toBe("\u001b[31mabcd31mefg\u001b[39m and \u001b[2mmore\u001b[22m\n");
});

test("a file gets each byte", () => {
  expect(written(false, (output) => output.result(HOSTILE))).toBe(`${HOSTILE}\n`);
});
