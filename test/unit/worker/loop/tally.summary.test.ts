import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { NO_SUMMARY } from "../../../../src/shared/protocol/reply.ts";
import { SUMMARY_MAX_CHARS, summarise } from "../../../../src/worker/loop/tally.ts";
import { anyCharacter } from "../../../helpers/cases.ts";

const length = (text: string) => [...text].length;

describe("summarise", () => {
  test.each(["", " \n\t"])("of %j says that there is none", (blank) => {
    expect(summarise(blank)).toEqual({ summary: NO_SUMMARY, truncated: false });
  });

  test("takes surrounding white space off and keeps the rest", () => {
    expect(summarise("\n  found  it \n")).toEqual({ summary: "found  it", truncated: false });
  });

  test.each(["x", "𝒶", "é"])("of 5,000 %j is whole, of 5,001 it is cut to 5,000 with the marker", (point) => {
    const whole = point.repeat(SUMMARY_MAX_CHARS);
    expect(summarise(whole)).toEqual({ summary: whole, truncated: false });
    const { summary, truncated } = summarise(`${whole}${point}`);
    expect(truncated).toBe(true);
    expect(length(summary)).toBe(SUMMARY_MAX_CHARS);
    expect(summary).toContain("[… shortened from 5001 characters; the full text is kept …]");
  });

  test("never cuts an astral character in two", () => {
    const { summary } = summarise(`${"𝒶".repeat(4_000)}x${"😀".repeat(4_000)}`);
    expect(summary).not.toMatch(/\p{Surrogate}/u);
  });

  test("keeps the beginning and the end, more of the beginning", () => {
    const { summary } = summarise(`BEGIN${"-".repeat(20_000)}END`);
    expect(summary).toMatch(/^BEGIN-+\n\[… .+ …\]\n-+END$/);
    expect(summary.indexOf("[…")).toBeGreaterThan(SUMMARY_MAX_CHARS / 2);
  });

  test("never exceeds its size, and cuts only what exceeds it", () => {
    const texts = fc.string({ unit: anyCharacter, maxLength: 400 });
    fc.assert(
      fc.property(texts, fc.integer({ min: 80, max: 300 }), (text, max) => {
        const { summary, truncated } = summarise(text, max);
        expect(length(summary)).toBeLessThanOrEqual(max);
        expect(truncated).toBe(length(text.trim()) > max);
      }),
    );
  });
});
