import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  CUT_MARKER,
  fitResult,
  MAX_RESULT_CHARS,
  safeText,
  textOfResult,
} from "../../../../src/worker/tools/result-text.ts";

describe("fitResult", () => {
  it("leaves a text of exactly the limit alone and cuts one more, marker included", () => {
    const full = "é".repeat(MAX_RESULT_CHARS);
    expect(fitResult(full)).toEqual({ text: full, truncated: false });
    const cut = fitResult(`${full}x`);
    expect(cut.truncated).toBe(true);
    expect([...cut.text]).toHaveLength(MAX_RESULT_CHARS);
    expect(cut.text.endsWith(CUT_MARKER)).toBe(true);
  });

  it("counts code points and never cuts a pair in half", () => {
    expect(fitResult("😀".repeat(MAX_RESULT_CHARS)).truncated).toBe(false);
    const { text } = fitResult(`x${"😀".repeat(MAX_RESULT_CHARS)}`);
    expect(/\p{Surrogate}/u.test(text)).toBe(false);
    expect([...text]).toHaveLength(MAX_RESULT_CHARS);
  });

  it("says so when there is nothing", () => {
    expect(fitResult("").text).toBe("(no output)");
    expect(fitResult(" \n").text).toBe("(no output)");
  });
});

describe("safeText", () => {
  it("shows a NUL and half a pair as what they are", () => {
    expect(safeText("a\0b\ud800")).toBe("a\u2400b\ufffd");
  });

  it("makes any text survive UTF-8 and hold no NUL", () => {
    const anyText = fc
      .array(fc.integer({ min: 0, max: 0xffff }))
      .map((units) => String.fromCharCode(...units));
    fc.assert(
      fc.property(anyText, (text) => {
        const safe = safeText(text);
        expect(Buffer.from(safe).toString()).toBe(safe);
        expect(safe).not.toContain("\0");
        expect(safe).toHaveLength(text.length);
      }),
    );
  });
});

describe("textOfResult", () => {
  it.each([
    ["a text", "a text"],
    [undefined, ""],
    [null, ""],
    [42, "42"],
    [0, "0"],
    [false, "false"],
    [{ found: 3, names: ["a"] }, '{"found":3,"names":["a"]}'],
    [[], "[]"],
    [[1, "b"], '[1,"b"]'],
    [new Date(0), '"1970-01-01T00:00:00.000Z"'],
    [12n, "12n"],
    [Symbol("s"), "Symbol(s)"],
  ])("makes a text of any value (case %#)", (result, text) => {
    expect(textOfResult(result)).toBe(text);
  });

  it("joins text blocks, and shows blocks of another kind as JSON", () => {
    const text = (words: string) => ({ type: "text", text: words });
    expect(textOfResult([text("one"), text("two")])).toBe("one\ntwo");
    expect(textOfResult([text("one"), 2])).toBe('[{"type":"text","text":"one"},2]');
  });

  it("shows what has no JSON form, and never throws", () => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    expect(textOfResult(cycle)).toContain("[Circular");
    let deep: unknown = "end";
    for (let level = 0; level < 20_000; level++) deep = [deep];
    expect(textOfResult(deep).length).toBeLessThan(1_000);
    const hostile = {
      toJSON() {
        throw new RangeError("no");
      },
    };
    expect(typeof textOfResult(hostile)).toBe("string");
    expect(textOfResult(() => 1)).toContain("=>");
  });
});
