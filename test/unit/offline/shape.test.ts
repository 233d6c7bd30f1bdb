/** Guarantee: an answer by rule fits the schema that the request enforces. */
import { expect, test } from "vitest";
import { shaped } from "../../../src/offline/shape.ts";

const objectOf = (properties: Record<string, unknown>, more: Record<string, unknown> = {}) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  ...more,
});
const text = { type: "string" };
const whole = { type: "integer" };

test.each([
  ["the first text field alone has the words", objectOf({ a: text, b: text }), "said", { a: "said", b: "" }],
  ["a constant", objectOf({ a: { const: 7 } }), "said", { a: 7 }],
  ["an allowed word that was said", { enum: ["a", "b"] }, '"b"', "b"],
  ["the first allowed word where another was said", { enum: ["a", "b"] }, '"c"', "a"],
  ["the branch that fits what was said", { anyOf: [text, whole] }, "3", 3],
  ["the first branch where none fits", { oneOf: [text, whole] }, "words", "words"],
  ["null where it was said", { anyOf: [text, { type: "null" }] }, "null", null],
  ["all parts of allOf", { allOf: [{ type: "object" }, objectOf({ a: whole })] }, "x", { a: 0 }],
  [
    "the fields of all parts of allOf",
    { allOf: [objectOf({ a: whole }), objectOf({ b: whole })] },
    "x",
    { a: 0, b: 0 },
  ],
  ["what a reference names", { $ref: "#/$defs/n", $defs: { n: { type: "integer", minimum: 4 } } }, "x", 4],
  ["as many elements as are wanted", { type: "array", items: whole, minItems: 2 }, "x", [0, 0]],
  ["the elements that were said", { type: "array", items: whole, minItems: 1 }, "[5,6]", [5, 6]],
  ["a text that is long enough", { type: "string", minLength: 6 }, "said", "said.."],
  ["a text that is short enough", { type: "string", maxLength: 2 }, "said", "sa"],
  ["a date", { type: "string", format: "date" }, "said", "1970-01-01"],
  ["a time", { type: "string", format: "date-time" }, "said", "1970-01-01T00:00:00Z"],
  ["a number above a bound", { type: "integer", exclusiveMinimum: 0 }, "said", 1],
  ["a number below a bound", { type: "number", maximum: -2 }, "said", -2],
  ["a whole number, though another was said", whole, "1.5", 0],
  ["a fraction where one may be", { type: "number" }, "1.5", 1.5],
  ["true where it was said", { type: "boolean" }, "true", true],
  ["the first of several types", { type: ["string", "null"] }, "said", "said"],
  ["optional fields that were said", objectOf({ a: whole }, { required: [] }), '{"a":2}', { a: 2 }],
  ["no optional field that was not said", objectOf({ a: whole }, { required: [] }), "{}", {}],
  ["other fields where they are allowed", objectOf({ a: whole }), '{"b":1}', { b: 1, a: 0 }],
  ["no other fields", objectOf({ a: whole }, { additionalProperties: false }), '{"b":1}', { a: 0 }],
])("it has %s", (_, schema, said, expected) => {
  expect<unknown>(JSON.parse(shaped(schema, said))).toEqual(expected);
});

test("a schema that refers to itself without an end is answered all the same", () => {
  const endless = objectOf({ next: { $ref: "#" } });
  expect(shaped(endless, "x")).toContain("next");
});
