import { expect, test } from "vitest";
import { readFrontMatter } from "../../../../src/producer/definitions/front-matter.ts";

const read = (...lines: string[]) => readFrontMatter(["---", ...lines, "---", "Do it."].join("\n"));

test("the problem of a file that is no YAML is that of the file, not that of its quoted form", () => {
  expect(read("description: Use: this", "  and that")).toMatchObject({
    ok: false,
    problem: { line: 2, message: expect.stringContaining("mapping") },
  });
});

test("a key that is no text is refused: its value may be a bound", () => {
  expect(read("description: b", "? [tools]", ": Read")).toMatchObject({ ok: false, problem: { line: 3 } });
});
