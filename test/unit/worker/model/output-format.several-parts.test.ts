/** Guarantee: no object is closed against members that its own schema asks for: no answer could fit it. */
import { expect, test } from "vitest";
import type { JsonObject } from "../../../../src/shared/protocol/content.ts";
import { outputFormat } from "../../../../src/worker/model/output-format.ts";

const text = { type: "string" };
const a = { type: "object", properties: { a: text } };
const b = { type: "object", properties: { b: text }, required: ["b"] };

test.each<[string, JsonObject]>([
  ["all of several", { ...a, allOf: [b] }],
  ["any of several", { ...a, anyOf: [b, { ...b, required: [] }] }],
  ["one of several", { ...a, oneOf: [b, { ...b, required: [] }] }],
  ["a definition", { ...a, $ref: "#/$defs/b", $defs: { b } }],
  ["a condition", { ...a, if: a, else: b }],
  ["a member", { ...a, dependentSchemas: { a: b } }],
  ["a member, in the words of an older draft", { ...a, dependencies: { a: b } }],
  ["itself, without naming them", { ...a, required: ["b"] }],
])("an object to which %s gives further members is left to the instructions", (_, schema) => {
  expect(outputFormat(schema)).toBe("");
  expect(outputFormat({ type: "array", items: schema })).toBe("");
});
