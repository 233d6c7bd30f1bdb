/** What a model reads of the results of servers, and when a worker stops asking for their lists. */
import { expect, it } from "vitest";
import { type Clock, systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { StopSignal } from "../../../../../src/shared/stop-signal.ts";
import { createMcpTools } from "../../../../../src/worker/tools/mcp/tools.ts";
import { runTool } from "../../../../../src/worker/tools/registry.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { type McpAnswers, startMcpServer } from "../../../../helpers/mcp.ts";
import { until } from "../../../../helpers/until.ts";

const logger = createLogger({ level: "silent" });

async function toolsOf(answers: McpAnswers, clock: Clock = systemClock) {
  const { url, asked } = await startMcpServer(answers);
  const mcp = createMcpTools({ far: { url, headers: {}, timeout_ms: 60_000 } }, { clock, logger });
  closeAtEnd(() => mcp.stop());
  await mcp.start();
  return { mcp, asked };
}

const text = (said: string) => ({ type: "text", text: said });

it.for<[string, object, { isError: boolean; content: unknown }]>([
  [
    "an error",
    { content: [text("no such order")], isError: true },
    { isError: true, content: "no such order" },
  ],
  ["an error without words", { isError: true }, { isError: true, content: "mcp__far__find failed." }],
  ["several texts", { content: [text("one"), text("two")] }, { isError: false, content: "one\ntwo" }],
  [
    "a thousand parts",
    { content: Array(1_000).fill(text("x")) },
    { isError: false, content: "x\n".repeat(1_000).trim() },
  ],
  [
    "more parts",
    { content: [text("first"), ...Array(1_001).fill(text("x"))] },
    { isError: false, content: expect.stringMatching(/^first\nx\n.*\[2 more parts: not shown\]$/s) },
  ],
  ["data alone", { structuredContent: { n: 3 } }, { isError: false, content: '{"n":3}' }],
])("%s", async ([, result, shown]) => {
  const tools = [{ name: "find", inputSchema: { type: "object" } }];
  const { mcp } = await toolsOf({ "tools/list": () => ({ tools }), "tools/call": () => result });
  const [tool] = mcp.tools();
  const stop = new StopSignal();
  const caller = { agentId: "a", uid: "u", run: 1, toolUseId: "t", workspace: {} as never, tellParent() {} };
  const call = { id: "t", name: "mcp__far__find", input: {} };
  const options = { offered: [call.name], clock: systemClock, stop };
  expect(await runTool(tool, call, caller, options)).toMatchObject(shown);
});

it("a server that cannot be listed is not asked for again once the worker stops", async () => {
  const clock = handClock();
  let sleeps = 0;
  const sleep: Clock["sleep"] = (ms, signal) => {
    sleeps += 1;
    return sleeps > 20 ? new Promise(() => {}) : clock.sleep(ms, signal);
  };
  const broken = () => {
    throw new Error("broken");
  };
  const { mcp } = await toolsOf({ "tools/list": broken }, { ...clock, sleep });
  const before = sleeps;
  await mcp.stop();
  await new Promise(setImmediate);
  expect(sleeps).toBe(before);
});

it("a worker starts ten seconds after it began to list a server that does not come to an end", async () => {
  const clock = handClock();
  const { url, asked } = await startMcpServer({
    "tools/list"({ params }) {
      return params?.cursor === undefined ? { tools: [], nextCursor: "2" } : undefined;
    },
  });
  const mcp = createMcpTools({ far: { url, headers: {}, timeout_ms: 60_000 } }, { clock, logger });
  closeAtEnd(() => mcp.stop());
  let isStarted = false;
  void mcp.start().then(() => {
    isStarted = true;
  });
  await until(() => asked.filter((method) => method === "tools/list").length === 2);
  expect(isStarted).toBe(false);
  clock.advance(10_000);
  await new Promise(setImmediate);
  expect(isStarted).toBe(true);
});
