import { expect, test } from "vitest";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import { renderTotals } from "../../../../src/cli/terminal/reply.ts";
import { sampleReply } from "../sample-reply.ts";

test("only replies that succeeded count as such: none that is partial, cancelled or failed", () => {
  const replies = (["succeeded", "partial", "cancelled", "failed"] as const).map((status) =>
    sampleReply({ status }),
  );
  const view = { asked: 4, elapsedMs: 0, columns: 80, style: createStyle(false) };
  expect(renderTotals(replies, view)[0]).toMatch(/^1 of 4 succeeded/);
});
