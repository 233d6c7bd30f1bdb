import fc from "fast-check";
import { expect, test } from "vitest";
import {
  byteCount,
  clip,
  depthOf,
  exceededBound,
  isClipped,
  jsonIn,
  quoted,
} from "../../../../src/shared/protocol/text.ts";

test.for([
  ["abc", 3, "abc"],
  ["abcd", 3, "ab…"],
  ["😀😀", 4, "😀😀"],
  ["😀😀", 3, "😀…"],
  ["😀😀a", 4, "😀…"],
  ["😀", 1, "…"],
] as const)("%j in %d code units is %j: no half of a character is left", ([text, most, cut]) => {
  expect(clip(text, most)).toBe(cut);
});

test("a text that was cut is told from one that is whole", () => {
  expect(["abcd", "😀😀", "😀a"].map((text) => isClipped(clip(text, 3), 3))).toEqual([true, true, false]);
  expect(["abc", "a…", "…"].map((text) => isClipped(text, 4))).toEqual([false, false, false]);
});

test("one byte is a byte", () => {
  expect([0, 1, 2].map(byteCount)).toEqual(["0 bytes", "1 byte", "2 bytes"]);
});

test("a text is quoted in JSON spelling, cut before it is spelled", () => {
  expect(quoted('a"b')).toBe(String.raw`"a\"b"`);
  expect(quoted(`${"\n".repeat(69)}😀`)).toBe(`"${String.raw`\n`.repeat(69)}…"`);
  expect(quoted("abc", 2)).toBe('"a…"');
});

test("what spells no JSON has no value, and null is one", () => {
  expect([jsonIn('{"a":1}'), jsonIn("null"), jsonIn("{"), jsonIn("")]).toEqual([
    { a: 1 },
    null,
    undefined,
    undefined,
  ]);
});

test("a JSON text nests as deeply as the value that it spells, whatever its texts are", () => {
  const brackets = fc.string({ unit: fc.constantFrom('"', "\\", "[", "]", "{", "}", "a") });
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: "medium" },
      brackets,
      fc.array(tie("value")),
      fc.dictionary(brackets, tie("value")),
    ),
  }));
  fc.assert(
    fc.property(value, fc.nat({ max: 6 }), (each, levels) => {
      const bounds = { levels, values: Number.POSITIVE_INFINITY };
      expect(exceededBound(JSON.stringify(each), bounds)).toBe(depthOf(each) > levels ? "levels" : undefined);
    }),
  );
});

test("a JSON text has as many values as it spells, and an empty list or object counts as two", () => {
  const values = (text: string, most: number) => exceededBound(text, { levels: 9, values: most });
  for (const [text, count] of [
    ["7", 1],
    ['"a,b,[c"', 1],
    ["[]", 2],
    ["[1,2]", 3],
    ['{"a,":[1,{}],"b":2}', 6],
  ] as const) {
    expect(values(text, count), text).toBeUndefined();
    expect(values(text, count - 1), text).toBe("values");
  }
});
