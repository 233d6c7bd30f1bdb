/** What a reply says as the result of a tool of MCP: all of it as data, and the text that a model reads. */
import { expect, test } from "vitest";
import { resultOf } from "../../../../src/service/mcp/task.ts";
import { sampleReply } from "../../cli/sample-reply.ts";

test("the output of a run and the files that it left are in the data of its result", () => {
  const files = [{ path: "report.md", size_bytes: 12, modified_at: "2026-11-10T00:00:00.000Z" }];
  const { structuredContent } = resultOf(sampleReply({ output: { colour: "red" }, files }));
  expect(structuredContent).toMatchObject({ output: { colour: "red" }, files });
  expect(Object.keys(resultOf(sampleReply()).structuredContent)).not.toContain("output");
});

test("the text of a result names the tools that its agent was to have and that no worker knows", () => {
  const [said] = resultOf(sampleReply({ unknown_tools: ["lsp"] })).content;
  expect(said?.text).toContain("Unknown tools were left out: lsp.");
});
