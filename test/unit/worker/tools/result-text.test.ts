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
    expect(fitResult(full)).toBe(full);
    const cut = fitResult(`${full}x`);
    expect([...cut]).toHaveLength(MAX_RESULT_CHARS);
    expect(cut.endsWith(CUT_MARKER)).toBe(true);
  });

  it("counts code points and never cuts a pair in half", () => {
    const full = "😀".repeat(MAX_RESULT_CHARS);
    expect(fitResult(full)).toBe(full);
    const text = fitResult(`x${full}`);
    expect(/\p{Surrogate}/u.test(text)).toBe(false);
    expect([...text]).toHaveLength(MAX_RESULT_CHARS);
  });

  it("says so when there is nothing", () => {
    expect(fitResult("")).toBe("(no output)");
    expect(fitResult(" \n")).toBe("(no output)");
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

  it.each([
    ["bytes that are text", Buffer.from("né"), "né"],
    ["bytes that are no text", new Uint8Array([255, 254, 0]), "[3 bytes that are no text]"],
    ["zeros", Buffer.alloc(5), "[5 bytes that are no text]"],
    [
      "bytes in an object",
      { out: Buffer.from("hi"), rest: [Buffer.from([255])] },
      '{"out":"hi","rest":["[1 bytes that are no text]"]}',
    ],
    ["no bytes", Buffer.alloc(0), ""],
  ])("shows bytes as the text that they are: %s", (_name, bytes, text) => {
    expect(textOfResult(bytes)).toBe(text);
  });

  it("keeps the numbers of other arrays, and an own key of any name", () => {
    expect(textOfResult(new Float64Array([1, 0.5]))).toBe('{"0":1,"1":0.5}');
    const odd = '{"__proto__":{"a":1},"constructor":2}';
    expect(textOfResult(JSON.parse(odd))).toBe(odd);
    expect(textOfResult({ ...JSON.parse('{"x":1}'), bytes: Buffer.from("b") })).toBe('{"x":1,"bytes":"b"}');
  });

  it.each<[string, () => unknown]>([
    ["a list of a million", () => Array.from({ length: 1e6 }, (_, i) => ({ i }))],
    ["an object of many keys", () => Object.fromEntries(Array.from({ length: 3e5 }, (_, i) => [`k${i}`, i]))],
    ["lists in lists", () => Array(1_000).fill(Array(1_000).fill(undefined))],
    ["a long text in an object", () => ({ text: "😀".repeat(1e6) })],
    ["numbers of another array", () => ({ numbers: new Float64Array(1e6) })],
    ["bytes that are text", () => Buffer.from("é".repeat(1e6))],
    ["bytes of ASCII", () => Buffer.from("x".repeat(2e6))],
    ["empty lists", () => Array(1e6).fill([])],
  ])("begins with what its JSON begins with, and reads little more of it: %s", (_name, make) => {
    const value = make();
    const whole = value instanceof Buffer ? value.toString() : JSON.stringify(value);
    const text = textOfResult(value);
    expect(text.length).toBeLessThan(1.5e6);
    expect(fitResult(text)).toEqual(fitResult(whole));
  });

  it("says that something is missing though paths in it become shorter behind it", () => {
    const text = textOfResult(Array(10_000).fill("/a/long/directory/of/the/workspace/file"));
    expect(text.endsWith(CUT_MARKER)).toBe(true);
    expect(textOfResult(Buffer.from("x".repeat(300_000))).endsWith(CUT_MARKER)).toBe(true);
  });

  it("makes no list of the bytes of a buffer, and no text of a whole one", () => {
    const bytes = Buffer.alloc(1e8);
    const text = "[100000000 bytes that are no text]";
    expect(textOfResult(bytes)).toBe(text);
    expect(textOfResult({ bytes })).toBe(`{"bytes":"${text}"}`);
    expect(textOfResult([bytes])).toBe(`["${text}"]`);
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
