/** An answer by rule is bounded, whatever the schema asks for. */
import { expect, test } from "vitest";
import { shaped } from "../../../src/offline/shape.ts";

const MOST_MADE = 10_000;
const lists = { type: "array", items: { $ref: "#" }, minItems: 4 };
const fields = {
  type: "object",
  properties: Object.fromEntries("abcdef".split("").map((name) => [name, { $ref: "#" }])),
};

test.each([
  ["lists", lists],
  ["objects", { ...fields, required: Object.keys(fields.properties) }],
])("%s in themselves without an end are cut off", (_, schema) => {
  expect(shaped(schema, "x").split(/[[{,]/).length).toBeLessThan(3 * MOST_MADE);
});

test("a list that was said stays whole, however long it is", () => {
  const said = JSON.stringify(Array.from({ length: MOST_MADE + 1 }, () => 7));
  expect(shaped({ type: "array", items: { type: "integer" } }, said)).toBe(said);
});
