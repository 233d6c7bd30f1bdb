import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  CUT_MARKER,
  clip,
  fitResult,
  MAX_RESULT_CHARS,
  safeText,
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

describe("clip", () => {
  it("keeps short texts and marks long ones", () => {
    expect(clip("abc", 3)).toBe("abc");
    expect(clip("😀😀😀", 2)).toBe("😀😀…");
  });
});
