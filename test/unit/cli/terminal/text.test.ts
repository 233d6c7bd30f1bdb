import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { cells, cutTo, padTo, plain, plainLine, wrap } from "../../../../src/cli/terminal/text.ts";
import { anyCharacter } from "../../../helpers/cases.ts";

test.each([
  ["plain", 5],
  ["数据", 4],
  ["e\u0301", 1],
  ["👩‍👩‍👧", 2],
  ["🇩🇪", 2],
  ["✔ done", 6],
  ["", 0],
])("%j takes %i cells", (text, width) => {
  expect(cells(text)).toBe(width);
});

test("text is cut with an ellipsis and never in the middle of a wide character", () => {
  expect(cutTo("Testing framework", 10)).toBe("Testing f…");
  expect(cutTo("数据收集", 4)).toBe("数…");
  expect(cutTo("数据收集", 8)).toBe("数据收集");
  expect(cutTo("abc", 1)).toBe("…");
  expect(cutTo("abc", 0)).toBe("");
});

test("padding fills to an exact width on either side, whatever the text", () => {
  expect(padTo("7/30", 6, "right")).toBe("  7/30");
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.integer({ min: 1, max: 40 }), (text, width) => {
      expect(cells(padTo(plainLine(text), width))).toBe(width);
    }),
  );
});

test("escape sequences, control and direction characters never reach the terminal", () => {
  const hostile = "a\u001b[2Jb\u001b]0;title\u0007c\u009b31md\u0000e\u202ef\u061c\r\ng\th\u001bPq\u0008i";
  expect(plain(hostile)).toBe("abc31mdef\ng    hqi");
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), (text) => {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these must be gone
      expect(plain(text)).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
    }),
  );
});

test("lines are broken between words, and list items keep their indentation", () => {
  expect(wrap("one two three", 8)).toEqual(["one two", "three"]);
  expect(wrap("- read the first file\n- stop", 14)).toEqual(["- read the", "  first file", "- stop"]);
  expect(wrap("a\n\nb", 20)).toEqual(["a", "", "b"]);
});

test("no line is wider than asked for, and nothing but blanks is lost", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme", maxLength: 200 }),
      fc.integer({ min: 8, max: 60 }),
      (raw, width) => {
        const text = plainLine(raw);
        const lines = wrap(text, width);
        for (const line of lines) expect(cells(line)).toBeLessThanOrEqual(width);
        // Wrapping composes characters, which look the same.
        expect(lines.join("").normalize().replace(/\s/g, "")).toBe(text.normalize().replace(/\s/g, ""));
      },
    ),
  );
});

/** Node 20 takes minutes for texts from 65,536 units on. The texts of the test are shorter, so that it fails soon. */
const LONG_UNITS = 16_384;

test("a long text is measured, cut and wrapped in pieces: no long one is given to the segmenter", () => {
  const segment = vi.spyOn(Intl.Segmenter.prototype, "segment");
  onTestFinished(() => segment.mockRestore());
  const prose = `${"Naïve — a long prompt. ".repeat(2_000)}end`;
  const family = "👩‍👩‍👧".repeat(4_000);
  expect(cells(prose)).toBe(prose.length);
  expect(cells(family)).toBe(8_000);
  expect(cutTo(prose, 23)).toBe("Naïve — a long prompt.…");
  expect(cutTo(family, 5)).toBe("👩‍👩‍👧👩‍👩‍👧…");
  expect(wrap(prose, Number.POSITIVE_INFINITY)).toEqual([prose]);
  expect(wrap(prose, 23)).toEqual([...Array(2_000).fill("Naïve — a long prompt."), "end"]);
  expect(wrap(family, 8)).toEqual(Array(1_000).fill("👩‍👩‍👧".repeat(4)));
  const longest = Math.max(...segment.mock.calls.map(([text]) => text.length));
  expect(longest).toBeLessThan(LONG_UNITS);
});
