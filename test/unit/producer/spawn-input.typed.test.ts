/** Guarantee: whatever reply has an output, a zod schema has parsed it; a reply says what is wrong where the schema refuses it. */
import { expect, test } from "vitest";
import { z } from "zod";
import { withJsonSchema } from "../../../src/producer/spawn-input.ts";
import { sampleReply } from "../cli/sample-reply.ts";

const schema = z.object({ name: z.string(), born: z.int().default(1815) }).refine(({ born }) => born < 2_000);
const { typed } = withJsonSchema({ prompt: "Who?", output_schema: schema }, "task");
const atCap = { status: "partial", stop_reason: "max_turns" } as const;

test("the output of a run that reached a cap is parsed like that of one that succeeded", async () => {
  for (const how of [{}, atCap])
    expect(await typed(sampleReply({ ...how, output: { name: "Ada" } }))).toMatchObject({
      ...how,
      output: { name: "Ada", born: 1815 },
    });
});

test("an output that the schema refuses is left out, and a run that reached a cap keeps its reason", async () => {
  const refused = { output: { name: "Eve", born: 2_001 } };
  const succeeded = await typed(sampleReply(refused));
  expect(succeeded).toMatchObject({ status: "partial", stop_reason: "invalid_output" });
  const capped = await typed(sampleReply({ ...atCap, ...refused }));
  expect(capped).toMatchObject({ ...atCap, error: expect.stringContaining("does not fit output_schema") });
  for (const reply of [succeeded, capped]) expect(reply).not.toHaveProperty("output");
});

test("a reply without an output stays as it is", async () => {
  for (const reply of [sampleReply(atCap), sampleReply({ status: "failed", stop_reason: "model_error" })])
    expect(await typed(reply)).toEqual(reply);
});
