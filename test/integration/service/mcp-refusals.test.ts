/** What a client of MCP is told that sends what cannot be read, or asks for what it cannot follow. */
import { beforeAll, expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { startApi, type TestApi } from "../../helpers/api.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const ASK = {
  type: "tool_use" as const,
  name: "ask_parent",
  input: { question: "Which colour?", default_answer: "green" },
};

let stage: Stage;
let api: TestApi;

beforeAll(async () => {
  stage = await openStage({ scenario: { turns: [{ content: [ASK] }] } });
  await stage.startWorker();
  api = await startApi({ client: stage.client(), mounts: [mcpMount()] });
});

test.for([
  ["what is no JSON", "{", 400, -32_700],
  ["what is too large", `"${"x".repeat(9 * 1_024 * 1_024)}"`, 413, -32_600],
  ["a list of messages", "[]", 400, -32_600],
] as const)(
  "%s is refused with the status of HTTP and the code of JSON-RPC",
  async ([, body, ...expected]) => {
    const answer = await api.ask("POST", "/mcp", { body });
    expect([answer.status, answer.body.error.code]).toEqual(expected);
    expect(answer.body).toMatchObject({ jsonrpc: "2.0", id: null });
  },
);

test("an answer from a client that cannot follow tasks is refused, and answers nothing", async () => {
  const url = `${api.url}/mcp?parent=planner-7`;
  const call = { name: "agent", arguments: { prompt: "paint", tool_allowlist: ["ask_parent"] } };
  const taskId = String((await askMcp(url, "tools/call", call)).result?.taskId);
  const asked = await until(async () => {
    const { result } = await askMcp(url, "tasks/get", { taskId });
    return result?.status === "input_required" && result;
  });
  const [key = "", request] = Object.entries(asked.inputRequests ?? {})[0] ?? [];
  // What a form of a client may fill in.
  expect(request).toMatchObject({
    params: { requestedSchema: { properties: { answer: { default: "green" } }, required: ["answer"] } },
  });
  const inputResponses = { [key]: { action: "accept", content: { answer: "blue" } } };
  const refused = await askMcp(url, "tasks/update", { taskId, inputResponses }, { followsTasks: false });
  expect(refused).toMatchObject({ error: { code: -32_021 } });
  expect((await askMcp(url, "tasks/get", { taskId })).result).toMatchObject({ status: "input_required" });
});
