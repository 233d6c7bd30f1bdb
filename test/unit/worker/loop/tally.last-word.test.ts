/** Guarantee: a last text of 200 characters may be a pointer to an earlier report; a longer one is a report itself. */
import { expect, test } from "vitest";
import { Tally } from "../../../../src/worker/loop/tally.ts";
import { text, used } from "./story.ts";

test.each([
  [200, true],
  [201, false],
])("a last text of %i characters after a long report", (length, isPointer) => {
  const tally = new Tally();
  const paid = { stopReason: "end_turn", model: "m", usage: used(1), costUsd: 0 };
  for (const [message, said] of [
    [1, "r".repeat(4 * length)],
    [3, "x".repeat(length)],
  ] as const)
    tally.answer({ ...paid, message, content: [text(said)], contentJson: JSON.stringify([text(said)]) });
  expect(tally.report.endsWith("r")).toBe(isPointer);
});
