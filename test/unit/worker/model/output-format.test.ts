/** Guarantee: a provider is asked to enforce a schema only where it can, and then nothing of the schema is lost. */
import { describe, expect, test } from "vitest";
import type { JsonObject } from "../../../../src/shared/protocol/content.ts";
import { outputFormat } from "../../../../src/worker/model/output-format.ts";

/** The schema that a provider gets; undefined where it gets none. */
function enforced(schema: JsonObject): unknown {
  const member = outputFormat(schema);
  if (member === "") return undefined;
  const { format } = JSON.parse(`{${member}}`);
  expect(format.type).toBe("json_schema");
  return format.schema;
}
const object = (properties: JsonObject, more: JsonObject = {}) => ({ type: "object", properties, ...more });
const closed = (properties: JsonObject, more: JsonObject = {}) => ({
  ...object(properties, more),
  additionalProperties: false,
});

test("objects are closed at every place", () => {
  const inner = object({ n: { type: "integer" } }, { required: ["n"] });
  const schema = object({
    list: { type: "array", items: inner },
    either: { oneOf: [inner, { type: "null" }] },
  });
  const shut = closed({ n: { type: "integer" } }, { required: ["n"] });
  expect(enforced({ $schema: "x", ...schema })).toEqual(
    closed({ list: { type: "array", items: shut }, either: { anyOf: [shut, { type: "null" }] } }),
  );
});

test("what a provider does not know becomes part of the description", () => {
  expect(enforced({ type: "string", pattern: "^a", format: "regex" })).toEqual({
    type: "string",
    description: '{pattern: "^a", format: "regex"}',
  });
  expect(enforced({ type: "array", items: { type: "string" }, minItems: 2, description: "Words." })).toEqual({
    type: "array",
    items: { type: "string" },
    description: "Words.\n\n{minItems: 2}",
  });
});

test.each<JsonObject>([
  { type: "string", format: "date-time" },
  { type: "array", items: { type: "number" }, minItems: 1 },
  { enum: ["a", 1, null] },
  { const: false },
  { anyOf: [{ type: "string" }, { const: 1 }] },
])("%j stays as it is", (schema) => {
  expect(enforced(schema)).toEqual(schema);
});

describe("a schema that none can enforce is left to the instructions", () => {
  test.each<[string, JsonObject]>([
    ["nothing", {}],
    ["a type of no kind", { type: "file" }],
    ["several types", { type: ["string", "null"] }],
    ["an object without members", { type: "object" }],
    ["a map with free keys", object({}, { additionalProperties: { type: "string" } })],
    ["one with free keys of any kind", object({}, { additionalProperties: true })],
    ["keys by a pattern", object({}, { patternProperties: { a: { type: "string" } } })],
    ["a member without a type", object({ a: {} })],
    ["an item without a type", { type: "array", items: {} }],
    ["an alternative without a type", { anyOf: [{ type: "string" }, {}] }],
    ["a recursion", object({ next: { $ref: "#" } })],
    [
      "one of definitions",
      {
        $ref: "#/$defs/a",
        $defs: { a: object({ next: { anyOf: [{ $ref: "#/$defs/a" }, { type: "null" }] } }) },
      },
    ],
    ["a reference that leads nowhere", object({ a: { $ref: "#/$defs/none" } })],
  ])("%s", (_, schema) => {
    expect(enforced(schema)).toBeUndefined();
  });
});

test("a definition may be used twice", () => {
  const schema = {
    $defs: { a: { type: "string" } },
    ...object({ x: { $ref: "#/$defs/a" }, y: { $ref: "#/$defs/a" } }),
  };
  expect(enforced(schema)).toEqual({ ...schema, additionalProperties: false });
});
