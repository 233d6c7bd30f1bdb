/** Guarantee: output whose schema cannot be used is not asked for again; output that does not fit it is. */
import { expect, test } from "vitest";
import { checkOutput } from "../../../../src/worker/tools/output-check.ts";

test("a schema that cannot be used is a final answer, and one that is not fitted is none", async () => {
  expect(await checkOutput({ $ref: "#/nowhere" }, "1")).toEqual({
    v: 1,
    fits: false,
    problem: expect.stringMatching(/^the schema cannot be used/),
    final: true,
  });
  expect(await checkOutput({ type: "string" }, "1")).not.toHaveProperty("final");
});
