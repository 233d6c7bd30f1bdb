import { expect, test } from "vitest";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import { awayLine, endedLine } from "../../../../src/cli/verbs/watch.ts";
import { sampleAgent } from "../sample-agent.ts";
import { sampleReply } from "../sample-reply.ts";

const style = createStyle(false);

test("an agent that has ended is one line: why, and what its run took", () => {
  const done = sampleAgent({ status: "ended", ended_reason: "completed", progress: sampleReply() });
  expect(endedLine(done, style)).toBe("✔ data_collector  completed · 3 turns · 4,812 tokens · $0.0123");
});

test("one that never did anything, and one whose record is gone, have a line too", () => {
  expect(endedLine(sampleAgent({ ended_reason: "idle" }), style)).toBe("✖ data_collector  idle");
  expect(endedLine(sampleAgent(), style)).toBe("✖ data_collector  ended");
});

test("a Redis that is away is told without the advice to call again", () => {
  const told = "Redis cannot be reached (gone). Trying again until it is back.";
  expect(awayLine("Redis cannot be reached (gone): nothing was done; call again when it is back.")).toBe(
    told,
  );
  expect(awayLine("Redis cannot be reached (gone).")).toBe(told);
});
