/** The reply of an agent that was to have tools that no worker knows says so, through every door and under any profile. */
import { expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { startApi } from "../../helpers/api.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const call = { name: "agent", arguments: { prompt: "Say hello", tool_allowlist: ["ask_parent", "lsp"] } };
const named = { content: [{ text: expect.stringContaining("Unknown tools were left out: lsp.") }] };

test("the text of a result of MCP names them, of a plain call as of a task", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const api = await startApi({ client: stage.client(), mounts: [mcpMount()] });
  const url = `${api.url}/mcp?parent=planner-7`;
  const { result } = await askMcp(url, "tools/call", call, { followsTasks: false });
  expect(result).toMatchObject(named);
  const { result: { taskId } = {} } = await askMcp(url, "tools/call", call);
  const task = await until(async () => {
    const { result: found } = await askMcp(url, "tasks/get", { taskId });
    return found?.status === "completed" && found;
  });
  expect(task.result).toMatchObject(named);
});

test("a reply over HTTP names them, though its parent's list of tools lacks them, too", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const api = await startApi({ client: stage.client() });
  await stage.parent().register({ tools: ["grep", "glob"] });
  const body = { prompt: "Say hello", tools: ["grep", "lsp"], request_key: "k" };
  const path = "/v1/parents/planner-7/tasks";
  const task = await api.ask("POST", `${path}?wait=30`, { body });
  expect(task.body).toMatchObject({ status: "succeeded", unknown_tools: ["lsp"] });
  const again = await api.ask("POST", path, { body });
  expect(again.body).toMatchObject({ known: true, unknown_tools: ["lsp"] });
});
