/** Guarantee: a program can tell by the code of a refusal of `/mcp` what to do. */
import { expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { startApi } from "../../helpers/api.ts";
import { openFaultLine } from "../../helpers/fault-line.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { started } from "../../helpers/parents.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { isCallOf } from "../../helpers/redis-commands.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a refused update of a task and a message that cannot be read carry their code, and whether to try again", async () => {
  const question = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which colour?" } };
  const stage = await openStage({ scenario: { turns: [{ content: [question] }] } });
  await stage.startWorker();
  const isAnswer = isCallOf("answer");
  const port = Number(new URL(redisUrl()).port);
  const line = await openFaultLine(port, (words) => (isAnswer(words) ? "refused" : "passes"));
  const client = await started(stage.client({ redisUrl: line }));
  const api = await startApi({ client, mounts: [mcpMount()] });
  const ask = (method: string, params: object) => askMcp(`${api.url}/mcp?parent=planner-7`, method, params);
  const call = { name: "agent", arguments: { prompt: "paint", tool_allowlist: ["ask_parent"] } };
  const taskId = String((await ask("tools/call", call)).result?.taskId);
  const key = await until(async () => {
    const { result } = await ask("tasks/get", { taskId });
    return Object.keys(result?.inputRequests ?? {})[0] ?? false;
  });
  const update = async (answer: string) => {
    const inputResponses = { [key]: { action: "accept", content: { answer } } };
    return (await ask("tasks/update", { taskId, inputResponses })).error?.data;
  };
  const tooLong = { code: "invalid_input", retryable: false, details: { issues: [expect.anything()] } };
  expect(await update("x".repeat(256 * 1_024 + 1))).toEqual(tooLong);
  expect(await update("blue")).toMatchObject({ code: "redis_unavailable", retryable: true });
  const unreadable = await fetch(`${api.url}/mcp`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: "[]",
  });
  expect(await unreadable.json()).toMatchObject({
    error: { data: { code: "invalid_input", retryable: false } },
  });
});
