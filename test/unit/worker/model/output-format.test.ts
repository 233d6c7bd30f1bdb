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
  expect(enforced({ $schema: "x", $id: "y", $comment: "z", ...schema })).toEqual(
    closed({ list: { type: "array", items: shut }, either: { anyOf: [shut, { type: "null" }] } }),
  );
});

test("one that is closed already stays as it is: its description gets no second word about it", () => {
  const schema = closed({ inner: closed({ n: { type: "integer" } }) });
  expect(enforced(schema)).toEqual(schema);
});

test("a member may have any name", () => {
  const named = JSON.parse('{"__proto__":{"type":"string"},"definitions":{"type":"string"}}');
  expect(JSON.stringify(enforced(object(named, { required: Object.keys(named) })))).toBe(
    JSON.stringify(closed(named, { required: Object.keys(named) })),
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
  const pair = { type: "array", items: { type: "integer" } };
  for (const keyword of ["enum", "const"])
    expect(enforced({ ...pair, [keyword]: [[1, 2]] })).toEqual({
      ...pair,
      description: `{${keyword}: [[1,2]]}`,
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
    ["a recursion in a member called definitions", object({ definitions: { $ref: "#" } })],
    [
      "a recursion that nothing leads to",
      object({}, { $defs: { a: object({ next: { $ref: "#/$defs/a" } }) } }),
    ],
    ["a reference that leads nowhere", object({ a: { $ref: "#/$defs/none" } })],
    ["one with the name of an inherited member", object({ a: { $ref: "#/$defs/toString" } }, { $defs: {} })],
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
