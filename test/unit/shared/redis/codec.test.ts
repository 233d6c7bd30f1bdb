import { describe, expect, test } from "vitest";
import {
  type Codec,
  flag,
  int,
  type LuaValue,
  names,
  numberIn,
  optional,
  real,
  rows,
  text,
  texts,
  word,
} from "../../../../src/shared/redis/codec.ts";

const READ: readonly [what: string, codec: Codec<unknown>, answer: LuaValue | undefined, value: unknown][] = [
  ["a text", text, "", ""],
  ["a whole number", int, "-12", -12],
  ["a number", real, "1.5", 1.5],
  ["a flag", flag, "1", true],
  ["a flag that is left out", flag, undefined, false],
  ["a word", word("on", "off"), "off", "off"],
  ["a value that is left out", optional(int), undefined, undefined],
  ["an empty value", optional(int), "", undefined],
  ["names", names, " bash grep ", ["bash", "grep"]],
  [
    "rows",
    rows({ a: int, b: text }),
    ["1", "x", "2", "y"],
    [
      { a: 1, b: "x" },
      { a: 2, b: "y" },
    ],
  ],
];

const REFUSED: readonly [what: string, codec: Codec<unknown>, answer: LuaValue | undefined][] = [
  ["no text", text, undefined],
  ["a list for a text", text, ["a"]],
  ["a fraction for a whole number", int, "1.5"],
  ["a number too great to be exact", int, "9007199254740993"],
  ["a word for a number", real, "soon"],
  ["an endless number", real, "inf"],
  ["another text for a flag", flag, "true"],
  ["an empty flag", flag, ""],
  ["a word that is none of the set", word("on", "off"), "half"],
  ["a text for a list", texts, "a"],
  ["a row that is no number", rows({ a: int }), ["x"]],
];

describe("codecs of what scripts answer", () => {
  test.for(READ)("read %s", ([, codec, answer, value]) => {
    expect(codec.decode(answer)).toEqual(value);
  });

  test.for(REFUSED)("refuse %s", ([, codec, answer]) => {
    expect(() => codec.decode(answer)).toThrow(expect.objectContaining({ code: "protocol_violation" }));
  });
});

test("a number in Redis is read as scripts read it: infinities are some, and what spells none is 0", () => {
  expect(["12", "-1.5", "1e20", "inf", "-inf", "+Infinity"].map(numberIn)).toEqual([
    12,
    -1.5,
    1e20,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    Number.POSITIVE_INFINITY,
  ]);
  expect(["", "nan", "many", null, undefined].map(numberIn)).toEqual([0, 0, 0, 0, 0]);
});
