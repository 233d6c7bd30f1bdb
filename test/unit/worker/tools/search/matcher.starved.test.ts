/** A check of output that gets too little of the processor has no verdict: it can be made again. */
import { expect, it } from "vitest";
import { createMatcherProcesses } from "../../../../../src/worker/tools/search/matcher.ts";

it("a check against a schema that gets no time of the processor is unavailable; one that uses it up is not", async () => {
  const schema = JSON.stringify({ type: "string", pattern: "^(a+)+$" });
  const json = JSON.stringify(`${"a".repeat(64)}!`);
  const { signal } = new AbortController();
  // It gives up long before the check has had the time that it may take.
  const impatient = createMatcherProcesses(1, 20).open(signal);
  await expect(impatient.mismatch(schema, json)).rejects.toMatchObject({ reason: "unavailable" });
  await impatient.close();
  const patient = createMatcherProcesses(1, 60_000).open(signal);
  await expect(patient.mismatch(schema, json)).rejects.toMatchObject({ reason: "other" });
  await patient.close();
});
