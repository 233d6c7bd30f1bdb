import { expect, test } from "vitest";
import { toJsonLine } from "../../../../src/cli/terminal/text.ts";

test("a value is one line that no terminal obeys, and means what it meant", () => {
  const value = { text: "a\nb\u001b[31m\u009b31m\u202e\u2028\u061c é 漢" };
  const line = toJsonLine(value);
  expect(JSON.parse(line)).toEqual(value);
  expect(line).toBe('{"text":"a\\nb\\u001b[31m\\u009b31m\\u202e\\u2028\\u061c é 漢"}');
});
