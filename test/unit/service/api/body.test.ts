/** The measures of a body before it is parsed: brackets and commas count outside of texts alone, whatever the texts hold. */

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { requireSmall } from "../../../../src/service/api/body.ts";
import { depthOf } from "../../../../src/shared/protocol/text.ts";

const check = (text: string) => () => requireSmall(Buffer.from(text));
const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels);

describe("JSON text", () => {
  test("is small whatever its texts are made of", () => {
    const hostile = fc
      .array(fc.constantFrom("[", "{", "]", ",", '"', "\\", "\\\\", "é", "\u2028", "\n"))
      .map((all) => all.join(""));
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), fc.array(hostile), (value, texts) => {
        expect(depthOf(value)).toBeLessThanOrEqual(64);
        const filler = "[".repeat(100) + ",".repeat(60_000);
        requireSmall(Buffer.from(JSON.stringify({ value, texts, [texts.join("")]: filler }, null, 1)));
      }),
    );
  });

  test("nests at most 64 levels, also behind a text that ends in a backslash", () => {
    expect(check(nested(64))).not.toThrow();
    expect(check(nested(65))).toThrow(/deeper than 64 levels/);
    expect(check(`{"a\\\\": ${nested(64)}}`)).toThrow(/deeper than 64 levels/);
    expect(check(`["\\"", ${nested(64)}]`)).toThrow(/deeper than 64 levels/);
    expect(check(Array(500).fill(nested(64)).join())).not.toThrow();
  });

  test("has at most 50,000 values, however they are kept", () => {
    expect(check(`[${"1,".repeat(49_000)}1]`)).not.toThrow();
    expect(check(`[${"1,".repeat(50_001)}1]`)).toThrow(/more than 50000 values/);
    expect(check(`[${"[".repeat(30)}${"{}".repeat(50_001)}`)).toThrow(/more than 50000 values/);
  });
});
