/** Guarantee: a plain MCP call tells its client of a question, and leaves none in the channel: its client reads no channel. */
import { expect, test } from "vitest";
import { createApi } from "../../../src/service/api/api.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import { startApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a plain call whose time is over while its sub-agent asks is answered with the question", async () => {
  const asks = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which one?" } };
  const stage = await openStage({ scenario: { turns: [{ content: [asks] }] } });
  await stage.startWorker();
  const parent = stage.parent("mcp");
  const limits: (() => void)[] = [];
  /** Keeps the limit of a plain call until the test lets it pass. */
  const clock: Clock = {
    ...systemClock,
    timeout(ms, callback) {
      if (ms === 45_000) limits.push(callback);
      return systemClock.timeout(ms, callback);
    },
  };
  const api = createApi({ client: stage.client(), mounts: [mcpMount()], clock });
  closeAtEnd(() => api.stop());
  await api.start();
  const call = { name: "task", arguments: { prompt: "work" } };
  const called = askMcp(`${api.url}/mcp`, "tools/call", call, { followsTasks: false });
  await until(async () => (await parent.list())[0]?.status === "waiting");
  for (const pass of limits) pass();
  expect((await called).result).toMatchObject({
    content: [{ text: expect.stringMatching(/^Sub-agent task waits for your answer: .*\nWhich one\?\n/s) }],
    structuredContent: { agent_id: "task", status: "input_required" },
  });
});

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
