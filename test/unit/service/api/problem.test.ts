import { expect, test } from "vitest";
import { problemDocument } from "../../../../src/service/api/problem.ts";
import { SubagentError } from "../../../../src/shared/errors.ts";

const detailsOf = (details: Record<string, unknown>) =>
  problemDocument(new SubagentError("invalid_input", "Wrong.", details), undefined).details;

test("the details of a problem repeat four levels of a request, and no more", () => {
  const nested = { a: { b: { c: { d: { e: "deep" } } } } };
  expect(detailsOf(nested)).toEqual({ a: { b: { c: { d: "…" } } } });
  expect(detailsOf({ list: [[[["deep"]]]] })).toEqual({ list: [[["…"]]] });
});

test("they repeat 500 characters of a text or name, and 20 entries of a list or an object", () => {
  const { text, list, object } = detailsOf({
    text: "x".repeat(501),
    list: Array.from({ length: 21 }, (_, i) => i),
    object: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`f${i}`, i])),
  }) as { text: string; list: number[]; object: object };
  expect([text.length, list.length, Object.keys(object).length]).toEqual([500, 20, 20]);
  const [name = ""] = Object.keys(detailsOf({ ["n".repeat(501)]: 1 }) ?? {});
  expect(name).toHaveLength(500);
});

test("an error of the process repeats nothing of itself", () => {
  const error = new SubagentError("protocol_violation", "Odd data at redis://secret.", { key: "secret" });
  expect(problemDocument(error, undefined).details).toBeUndefined();
});
