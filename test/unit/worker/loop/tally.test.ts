import { describe, expect, test } from "vitest";
import type { JsonObject } from "../../../../src/shared/protocol/content.ts";
import { Repetition, Tally } from "../../../../src/worker/loop/tally.ts";
import { asked, call } from "./story.ts";

const toolCall = (input: JsonObject) => ({ name: "a", input });

/** How many in a row each call completes; each inner list is one message. */
function counts(...messages: [name: string, input: JsonObject][][]): number[] {
  const story = asked();
  return messages.flatMap((calls) => {
    story.asks(...calls.map(([name, input], i) => call(`${i}`, name, input)));
    return story.log().last?.calls.map(({ repeats }) => repeats) ?? [];
  });
}

describe("repetitions", () => {
  test("are counted across and within messages", () => {
    expect(
      counts(
        [["look", {}]],
        [["look", {}]],
        [
          ["look", {}],
          ["look", {}],
        ],
      ),
    ).toEqual([1, 2, 3, 4]);
  });

  test("end with another name, another input, or another call in between", () => {
    expect(counts([["a", {}]], [["b", {}]])).toEqual([1, 1]);
    expect(counts([["a", { q: 1 }]], [["a", { q: 2 }]])).toEqual([1, 1]);
    expect(counts([["a", {}]], [["b", {}]], [["a", {}]], [["a", {}]])).toEqual([1, 1, 1, 2]);
  });

  test("do not depend on the order of keys, at any depth", () => {
    const one = { a: [{ x: 1, y: [null, "s"] }], b: { c: true, d: {} } };
    const other = { b: { d: {}, c: true }, a: [{ y: [null, "s"], x: 1 }] };
    expect(counts([["a", one]], [["a", other]])).toEqual([1, 2]);
  });

  test.each<[JsonObject, JsonObject]>([
    [{ a: [1, 2] }, { a: [2, 1] }],
    [{ a: [] }, { a: {} }],
    [{ a: null }, { a: {} }],
    [{ a: null }, {}],
    [{ a: "1" }, { a: 1 }],
    [{ a: 1 }, { b: 1 }],
    [{ a: 1 }, { a: 1, b: 1 }],
    [{ a: ["x"] }, { a: { 0: "x" } }],
    [JSON.parse('{"__proto__":{}}'), { q: {} }],
  ])("%j and %j are different inputs", (one, other) => {
    for (const inputs of [
      [one, other],
      [other, one],
    ]) {
      const repetition = new Repetition();
      expect(inputs.map((input) => repetition.count(toolCall(input)))).toEqual([1, 1]);
    }
  });

  test("are seen in inputs nested as deep as JSON can be parsed", () => {
    const repetition = new Repetition();
    const counted = ["1", "1", "2"].map((core) => {
      const input = JSON.parse(`{"a":${"[".repeat(100_000)}${core}${"]".repeat(100_000)}}`) as JsonObject;
      return repetition.count(toolCall(input));
    });
    expect(counted).toEqual([1, 2, 1]);
  });
});

test("calls are counted under at most a hundred names and one for the others: a model invents any number", () => {
  const tally = new Tally();
  const names = Array.from({ length: 150 }, (_, i) => `invented_${i}`);
  for (const name of names) tally.call(name);
  tally.call("invented_0");
  expect([tally.calls.size, tally.toolCalls]).toEqual([101, 151]);
  expect(tally.calls.get("(others)")).toBe(50);
  tally.uncall("invented_149");
  expect([tally.calls.get("(others)"), tally.calls.get("invented_0")]).toEqual([49, 2]);
});
