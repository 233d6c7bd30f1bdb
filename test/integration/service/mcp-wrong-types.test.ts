/** A tool call whose parameters have a wrong type is answered in sentences of this program, through every transport of MCP. */
import { expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { startApi } from "../../helpers/api.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { openStage } from "../../stage/stage.ts";

const CASES = [
  ["arguments that are text", { name: "task", arguments: "x" }, "arguments: must be an object"],
  ["arguments that are a list", { name: "task", arguments: [1] }, "arguments: must be an object"],
  ["arguments that are null", { name: "task", arguments: null }, "arguments: must be an object"],
  ["a name that is a number", { name: 5, arguments: {} }, "name: must be text"],
  ["no name", { arguments: {} }, "name: is missing"],
  ["a long name", { name: "x".repeat(129) }, "name: must be at most 128 characters long"],
] as const;

test("over HTTP", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client(), mounts: [mcpMount()] });
  for (const [what, params, problem] of CASES) {
    const { error } = await askMcp(`${api.url}/mcp`, "tools/call", params);
    expect(error, what).toMatchObject({
      code: -32_602,
      message: `tools/call refused, nothing was done: ${problem}.`,
      data: { code: "invalid_input", retryable: false },
    });
  }
  const { error } = await askMcp(`${api.url}/mcp`, "tasks/get", { taskId: 5 });
  expect(error).toMatchObject({
    code: -32_602,
    message: "tasks/get refused, nothing was done: taskId: must be text.",
  });
});
