import { expect, test } from "vitest";
import { z } from "zod";
import { readInput } from "../../../../src/producer/input.ts";
import { queryNumber, WaitSeconds } from "../../../../src/service/api/schema.ts";

const Query = z.strictObject({
  wait: WaitSeconds,
  after: queryNumber(z.coerce.number().int().min(-1)).optional(),
});
const read = (query: object) => readInput(Query, query, "query");

test("a number of a query is read where it stands, and has its default where it is left out", () => {
  expect(read({})).toEqual({ wait: 0 });
  expect(read({ wait: "2.5", after: "-1" })).toEqual({ wait: 2.5, after: -1 });
  expect(() => read({ wait: "301" })).toThrow("query refused, nothing was done: wait: must be at most 300.");
});

test.each(["", " ", "soon", ["", "1"]])(
  "a query with no number where one must be is refused, and names it: %j",
  (text) => {
    expect(() => read({ wait: text })).toThrow("query refused, nothing was done: wait: must be a number.");
    expect(() => read({ after: text })).toThrow("query refused, nothing was done: after: must be a number.");
  },
);
