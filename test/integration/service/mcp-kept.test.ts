/** Tasks of MCP's clients that have no reply of their own any more. */
import { beforeAll, expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { startApi, type TestApi } from "../../helpers/api.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const parentId = "planner-7";

let stage: Stage;
let api: TestApi;

beforeAll(async () => {
  stage = await openStage();
  api = await startApi({ client: stage.client(), mounts: [mcpMount()] });
});

const ask = (method: string, params: object) => askMcp(`${api.url}/mcp?parent=${parentId}`, method, params);

test("a task that ended, and whose record has no reply, has failed: its client does not ask for ever", async () => {
  const { result } = await ask("tools/call", { name: "agent", arguments: { prompt: "paint" } });
  const taskId = String(result?.taskId);
  const worker = stage.scriptedWorker(parentId);
  await worker.run("agent");
  const [uid = ""] = taskId.split(".");
  // As an earlier version leaves it.
  await stage.redis.hdel(stage.keys.agent({ tenant: "default", parentId, uid }).record, "reply");
  expect((await ask("tasks/get", { taskId })).result).toMatchObject({
    status: "failed",
    error: { message: "Its reply is no longer kept." },
  });
});

test("the id of an agent's first run names no task once the agent runs again: it would have another run's reply", async () => {
  const [parent, worker] = [stage.parent(parentId), stage.scriptedWorker(parentId)];
  const { agent_id } = await parent.spawn({ name: "kept", keep_alive: true });
  const taskId = `${await worker.uidOf(agent_id)}.1`;
  await parent.send(agent_id, "first");
  await worker.run(agent_id, { keepAlive: true });
  expect((await ask("tasks/get", { taskId })).result).toMatchObject({ status: "completed" });
  await parent.send(agent_id, "second");
  await worker.run(agent_id, { keepAlive: true });
  expect((await ask("tasks/get", { taskId })).error).toMatchObject({ code: -32_602 });
});
