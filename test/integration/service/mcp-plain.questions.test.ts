/** Guarantee: a plain MCP call tells its client of a question, and leaves none in the channel: its client reads no channel. */
import { expect, test } from "vitest";
import { createApi } from "../../../src/service/api/api.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

/** Longest wait of a plain call. */
const LIMIT_MS = 45_000;
const ASKS = {
  content: [{ type: "tool_use" as const, name: "ask_parent", input: { question: "Which one?" } }],
};

async function open() {
  const done = { content: [{ type: "text" as const, text: "done" }] };
  const stage = await openStage({ scenario: { turns: [ASKS, done] } });
  await stage.startWorker();
  let limitsReached = 0;
  const clock: Clock = {
    ...systemClock,
    timeout: (ms, callback) =>
      systemClock.timeout(ms, () => {
        if (ms === LIMIT_MS) limitsReached += 1;
        callback();
      }),
  };
  const api = createApi({ client: stage.client(), mounts: [mcpMount()], clock });
  closeAtEnd(() => api.stop());
  await api.start();
  const called = async (name: string, given: object) => {
    const call = { name, arguments: given };
    return (await askMcp(`${api.url}/mcp?parent=mcp`, "tools/call", call, { followsTasks: false })).result;
  };
  return {
    stage,
    parent: stage.parent("mcp"),
    limitsReached: () => limitsReached,
    ask: () => called("task", { prompt: "work" }),
    check: async () => JSON.stringify(await called("check_sub_agent", { agent_id: "task" })),
  };
}

test("a plain call is answered as soon as its sub-agent asks, with the question", async () => {
  const { ask, limitsReached } = await open();
  expect(await ask()).toMatchObject({
    content: [{ text: expect.stringMatching(/^Sub-agent task waits for your answer: .*\nWhich one\?\n/s) }],
    structuredContent: { agent_id: "task", status: "input_required" },
  });
  expect(limitsReached()).toBe(0);
});

test("the question of a plain call is out of the channel once check_sub_agent has told the reply", async () => {
  const { stage, parent, ask, check } = await open();
  await ask();
  await parent.answer("task", "that one");
  await until(async () => (await check()).includes("done"));
  const { replies } = stage.keys.parent({ tenant: parent.tenant, parentId: parent.parentId });
  await until(async () => (await stage.redis.xlen(replies)) === 0, { what: "an empty channel" });
});
