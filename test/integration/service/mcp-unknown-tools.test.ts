/** A plain call of MCP whose agent was to have tools that no worker knows says so beside its result. */
import { expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { startApi } from "../../helpers/api.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { openStage } from "../../stage/stage.ts";

test("the text of the result names them", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const api = await startApi({ client: stage.client(), mounts: [mcpMount()] });
  const call = { name: "agent", arguments: { prompt: "Say hello", tool_allowlist: ["ask_parent", "lsp"] } };
  const url = `${api.url}/mcp?parent=planner-7`;
  const { result } = await askMcp(url, "tools/call", call, { followsTasks: false });
  expect(result).toMatchObject({
    content: [{ text: expect.stringContaining("Unknown tools were left out: lsp.") }],
  });
});
