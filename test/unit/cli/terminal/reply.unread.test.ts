import { expect, test } from "vitest";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import { renderReply } from "../../../../src/cli/terminal/reply.ts";
import { sampleReply } from "../sample-reply.ts";

test("a reply says that messages came too late for its agent", () => {
  const view = { columns: undefined, style: createStyle(false) };
  const said = (undelivered?: string[]) => renderReply(sampleReply(undelivered ? { undelivered } : {}), view);
  expect(said(["m-1", "m-2"])).toContain("  2 messages to it came too late and were not read.");
  expect(said().join("\n")).not.toContain("too late");
});
