import { expect, test } from "vitest";
import { plain } from "../../../../src/cli/terminal/text.ts";

test("each kind of line end is one", () => {
  expect(plain("a\r\nb\rc\nd")).toBe("a\nb\nc\nd");
});
