import { expect, test } from "vitest";
import { rowWithView } from "../../../../src/cli/terminal/progress-rows.ts";
import { sampleAgent } from "../sample-agent.ts";

test("a row is as old as when it was first seen, whatever a later look takes its age to be", () => {
  const agent = sampleAgent({ status: "running" });
  const first = rowWithView(undefined, agent, { nowMs: 10_000, ageMs: 4_000 });
  expect(first.startedAtMs).toBe(6_000);
  expect(rowWithView(first, agent, { nowMs: 20_000, ageMs: 1_000 }).startedAtMs).toBe(6_000);
});
