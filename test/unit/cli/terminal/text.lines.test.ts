import { expect, test } from "vitest";
import { lineCells, plain } from "../../../../src/cli/terminal/text.ts";

test("each kind of line end is one", () => {
  expect(plain("a\r\nb\rc\nd")).toBe("a\nb\nc\nd");
});

test("the last cell of a terminal stays empty; a file has no limit", () => {
  expect([lineCells(80), lineCells(80, 40), lineCells(undefined, 40)]).toEqual([
    79,
    40,
    Number.POSITIVE_INFINITY,
  ]);
});
