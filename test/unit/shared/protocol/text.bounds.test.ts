/** Guarantee: JSON is measured as it is nested, before it is parsed, and what lies too deep is replaced exactly. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { cutBelowKept, exceededBound } from "../../../../src/shared/protocol/text.ts";

const BOUNDS = { levels: 3, values: 1_000 };

test("values beside each other are on one level", () => {
  expect(exceededBound(`[${Array(400).fill('[{"a":1}]').join()}]`, BOUNDS)).toBe("values");
  expect(exceededBound(`[${Array(200).fill('[{"a":1}]').join()}]`, BOUNDS)).toBeUndefined();
  expect(exceededBound('[[[]],[{"a":{}}]]', BOUNDS)).toBe("levels");
});

test("brackets and commas in texts are no values, also behind escaped quotes", () => {
  const text = JSON.stringify(['"[[[[[', "\\", `${"],[".repeat(2_000)}\\"`]);
  expect(exceededBound(text, BOUNDS)).toBeUndefined();
});

test("a text that never ends exceeds no bound: the parser refuses it", () => {
  expect(exceededBound('{"a":"b,c', BOUNDS)).toBeUndefined();
  expect(exceededBound('"', BOUNDS)).toBeUndefined();
});

test("a value below the kept levels becomes 0, whatever it holds, and all others stay", () => {
  const nested = (levels: number, inner: string) => "[".repeat(levels) + inner + "]".repeat(levels);
  expect(cutBelowKept(nested(120, '{"a":["]"]},[1],2'))).toBe(nested(120, "0,0,2"));
  expect(cutBelowKept(nested(119, '{"a":{}}'))).toBe(nested(119, '{"a":0}'));
  expect(cutBelowKept(nested(120, '"x"'))).toBe(nested(120, '"x"'));
});

test("JSON that ends below the kept levels keeps nothing of what lies there", () => {
  expect(cutBelowKept("[".repeat(5_000))).toBe("[".repeat(120));
});

test("JSON of few levels stays as it is", () => {
  fc.assert(fc.property(fc.json({ maxDepth: 8 }), (json) => cutBelowKept(json) === json));
});
