/** Guarantee: output fits its schema by what it holds itself, whatever its keys are called. */
import { expect, test } from "vitest";
import { checkOutput as check } from "../../../../src/worker/tools/output-check.ts";

test.each<[string, Record<string, unknown>, string]>([
  ["required", { required: ["toString"] }, "{}"],
  ["required, one inherited twice", { required: ["__proto__"] }, '{"a":1}'],
  ["required further in", { properties: { a: { required: ["constructor"] } } }, '{"a":{"b":1}}'],
  ["required in a list", { items: { required: ["valueOf"] } }, "[{}]"],
  ["required by another", { dependentRequired: { a: ["hasOwnProperty"] } }, '{"a":1}'],
  ["required by another, as older drafts say", { dependencies: { a: ["toString"] } }, '{"a":1}'],
])("what an object only inherits is not there: %s", async (_name, schema, text) => {
  expect(await check(schema, text)).toMatchObject({
    fits: false,
    problem: expect.stringMatching(/does not have/),
  });
});

test.each<[string, Record<string, unknown>, string]>([
  ["properties", { properties: { toString: { type: "string" }, constructor: false } }, "{}"],
  ["dependentRequired", { dependentRequired: { toString: ["a"] } }, "{}"],
  ["dependentSchemas", { dependentSchemas: { constructor: false } }, "{}"],
  ["dependencies", { dependencies: { valueOf: false } }, "{}"],
  ["what is there", { required: ["toString", "__proto__"] }, '{"toString":1,"__proto__":{"a":2}}'],
  ["constants", { const: { a: { b: [1] } } }, '{"a":{"b":[1]}}'],
  ["unique items", { uniqueItems: true }, '[{"a":1},{"a":2}]'],
])("and binds nothing where it is not: %s", async (_name, schema, text) => {
  expect(await check(schema, text)).toEqual({ v: 1, fits: true });
});

test.each<[string, Record<string, unknown>, string]>([
  [
    "a key of its own with such a name",
    JSON.parse('{"properties":{"__proto__":{"type":"string"}}}'),
    '{"__proto__":{}}',
  ],
  ["one that no property names", { properties: {}, additionalProperties: false }, '{"constructor":1}'],
  ["one more that no property names", { additionalProperties: false }, '{"__proto__":{"a":1}}'],
  ["a number of keys", { maxProperties: 0 }, '{"__proto__":1}'],
])("what it holds itself is looked at: %s", async (_name, schema, text) => {
  expect(await check(schema, text)).toMatchObject({ fits: false });
});
