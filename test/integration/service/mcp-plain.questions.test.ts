/** Guarantee: a plain MCP call leaves nothing in the channel: its client reads no channel. */
import { expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { startApi } from "../../helpers/api.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("the questions of a plain call that were answered meanwhile are acked with its reply", async () => {
  const asks = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which one?" } };
  const stage = await openStage({
    scenario: { turns: [{ content: [asks] }, { content: [{ type: "text", text: "done" }] }] },
  });
  await stage.startWorker();
  const parent = stage.parent("mcp");
  const { url } = await startApi({ client: stage.client(), mounts: [mcpMount()] });
  const called = askMcp(
    `${url}/mcp?parent=mcp`,
    "tools/call",
    { name: "task", arguments: { prompt: "work" } },
    { followsTasks: false },
  );
  await until(async () => (await parent.list())[0]?.status === "waiting");
  await parent.answer("task", "that one");
  expect((await called).result).toMatchObject({ structuredContent: { summary: "done" } });
  const { replies } = stage.keys.parent({ tenant: parent.tenant, parentId: parent.parentId });
  await until(async () => (await stage.redis.xlen(replies)) === 0, {
    what: "an empty channel",
    timeoutMs: 10_000,
  });
});
