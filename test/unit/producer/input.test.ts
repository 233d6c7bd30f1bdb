import { describe, expect, test } from "vitest";
import { z } from "zod";
import { digestOf, nullsLeftOut, readInput } from "../../../src/producer/input.ts";

const Shape = z.strictObject({ a: z.int().min(1), b: z.string().optional() });

describe("reading input", () => {
  test("gives what the schema reads", () => {
    expect(readInput(Shape, { a: 1 }, "it")).toEqual({ a: 1 });
  });

  test("takes a field that is undefined for one that is absent, at any depth, and leaves what is of a class as it is", () => {
    const { signal } = new AbortController();
    const Loose = z.looseObject({ limits: z.object({ most: z.int() }).partial(), list: z.unknown() });
    const input = { limits: { most: undefined }, list: [{ a: undefined, b: null }], more: undefined, signal };
    const read = readInput(Loose, input, "it");
    expect(read).toStrictEqual({ limits: {}, list: [{ b: null }], signal });
    expect(read.signal).toBe(signal);
    class Limits {
      most = undefined;
    }
    expect(readInput(Loose, { limits: new Limits(), list: 1 }, "it")).toStrictEqual({ limits: {}, list: 1 });
  });

  test("names every wrong field at once, with its path", () => {
    const error = catching(() => readInput(z.object({ x: Shape }), { x: { a: 0, b: 7, c: 1 } }, "it"));
    expect(error).toMatchObject({
      code: "invalid_input",
      message: expect.stringMatching(/^it refused, nothing was done: x\.a: .*; x\.b: .*; x: .*"c"/),
      details: { issues: [{ field: "x.a" }, { field: "x.b" }, { field: "x" }] },
    });
  });

  test.for([
    [{ b: 7 }, "a: is missing; b: must be text"],
    [{ a: 0 }, "a: must be at least 1"],
    [{ a: Number.NaN }, "a: must be a number"],
    [{ a: 1.5 }, "a: must be a whole number"],
    [{ a: 1, c: 1, d: 2 }, 'input: does not know "c", "d"'],
    ["text", "input: must be an object"],
  ] as const)("%j is refused in words that say what to write: %s", ([input, problems]) => {
    expect(catching(() => readInput(Shape, input, "it"))).toMatchObject({
      message: `it refused, nothing was done: ${problems}.`,
    });
  });

  test("puts a limit into words that fit its number", () => {
    const Lengths = z.object({ text: z.string().min(1), list: z.array(z.int()).min(1).max(2) });
    const problems = (input: object) => catching(() => readInput(Lengths, input, "it"));
    expect(problems({ text: "", list: [] })).toMatchObject({
      message:
        "it refused, nothing was done: text: must be at least 1 character long; list: must be at least 1 entry long.",
    });
    expect(problems({ text: "a", list: [1, 2, 3] })).toMatchObject({
      message: "it refused, nothing was done: list: must be at most 2 entries long.",
    });
  });

  test("refuses what nests deeper than 32 levels before it looks at anything else", () => {
    const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);
    expect(catching(() => readInput(z.unknown(), deep(33), "it"))).toMatchObject({
      code: "invalid_input",
      details: { max_depth: 32 },
    });
    expect(readInput(z.unknown(), deep(32), "it")).toEqual(deep(32));
  });

  test("survives 8,000 levels and a value that contains itself", () => {
    let deep: unknown = 1;
    for (let level = 0; level < 8_000; level += 1) deep = { deep };
    const cyclic: Record<string, unknown> = {};
    cyclic.left = cyclic;
    cyclic.right = cyclic;
    for (const value of [deep, cyclic]) {
      expect(catching(() => readInput(z.unknown(), value, "it"))).toMatchObject({ code: "invalid_input" });
    }
  });
});

describe("a digest", () => {
  test("does not depend on the order of keys nor on undefined fields", () => {
    expect(digestOf({ a: 1, b: { c: [1, 2], d: null } })).toBe(
      digestOf({ b: { d: null, c: [1, 2], x: undefined }, a: 1 }),
    );
  });

  test("depends on every value, on types, and on the order of lists", () => {
    const values = [
      { a: 1 },
      { a: "1" },
      { a: [1, 2] },
      { a: [2, 1] },
      { a: null },
      {},
      { a: {} },
      { a: [] },
      "",
      null,
    ];
    expect(new Set(values.map(digestOf)).size).toBe(values.length);
  });
});

function catching(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}

test("null stands for a field left out, and a required one is missing", () => {
  const schema = nullsLeftOut(z.strictObject({ name: z.string(), model: z.string().optional() }));
  expect(readInput(schema, { name: "a", model: null }, "spawn")).toEqual({ name: "a" });
  expect(() => readInput(schema, { name: null }, "spawn")).toThrow("name: is missing");
});
