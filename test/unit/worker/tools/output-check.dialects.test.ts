/** Guarantee: output is checked by the dialect that its schema names, and the model reads where it does not fit, in few words. */
import { expect, test } from "vitest";
import { checkOutput } from "../../../../src/worker/tools/output-check.ts";

const DRAFT_7 = { $schema: "http://json-schema.org/draft-07/schema#" };

test.each<[string, Record<string, unknown>, string, boolean]>([
  ["the newest one if none is named", { prefixItems: [{ type: "string" }] }, "[1]", false],
  [
    "the newest one: beside a reference others bind",
    { $ref: "#/$defs/a", $defs: { a: {} }, type: "string" },
    "1",
    false,
  ],
  [
    "draft 7: beside a reference nothing binds",
    { ...DRAFT_7, $ref: "#/$defs/a", $defs: { a: {} }, type: "string" },
    "1",
    true,
  ],
])("%s", async (_name, schema, text, fits) => {
  expect(await checkOutput(schema, text)).toMatchObject({ fits });
});

test("the model reads the innermost places, five of them", async () => {
  const nested = { properties: { a: { properties: { b: { type: "string" } } } } };
  const { problem: inner } = Object(await checkOutput(nested, '{"a":{"b":1}}'));
  expect(inner).toMatch(/^at #\/a\/b: [^;]+$/);
  const required = [..."abcdefgh"];
  const { problem: many } = Object(await checkOutput({ required }, "{}"));
  expect(many.split("; ")).toHaveLength(5);
});

test("what is no JSON fits no schema", async () => {
  expect(await checkOutput({}, "Here is the answer.")).toMatchObject({ fits: false });
});
