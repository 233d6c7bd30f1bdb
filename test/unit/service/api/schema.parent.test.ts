/** Guarantee: the document of the API says that what a parent has cost is no whole number, as its answers have it. */
import { expect, test } from "vitest";
import { z } from "zod";
import { ParentView } from "../../../../src/service/api/schema.ts";

test("the money of a parent is a number, what is counted are whole ones", () => {
  const { properties } = z.toJSONSchema(ParentView, { io: "output" });
  const today = properties?.today as { properties: Record<string, { type: string }> };
  const types = Object.entries(today.properties).map(([name, { type }]) => [name, type]);
  expect(Object.fromEntries(types)).toEqual({ turns: "integer", tokens: "integer", cost_usd: "number" });
});
