import { expect, test } from "vitest";
import { checkOutput } from "../../../../src/worker/tools/output-check.ts";

test("a problem that names something long is told in at most 1,000 characters", async () => {
  const name = "n".repeat(5_000);
  const verdict = await checkOutput({ type: "object", required: [name] }, "{}");
  expect(verdict).toMatchObject({ fits: false, problem: expect.stringMatching(/n{500}/) });
  expect(verdict.problem?.length).toBeLessThanOrEqual(1_000);
});
