/** The tools of a worker that is stopped and started again. */
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { StopSignal } from "../../../../../src/shared/stop-signal.ts";
import { createMcpTools } from "../../../../../src/worker/tools/mcp/tools.ts";
import { runTool } from "../../../../../src/worker/tools/registry.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { startMcpServer } from "../../../../helpers/mcp.ts";

it("a worker that starts again lists its servers again, and calls them", async () => {
  const names = ["old", "new"];
  const { url } = await startMcpServer({
    "tools/list": () => ({ tools: [{ name: names.shift(), inputSchema: { type: "object" } }] }),
    "tools/call": () => ({ content: [{ type: "text", text: "found" }] }),
  });
  const logger = createLogger({ level: "silent" });
  const far = { url, headers: {}, timeout_ms: 60_000 };
  const mcp = createMcpTools({ far }, { clock: systemClock, logger });
  closeAtEnd(() => mcp.stop());
  await mcp.start();
  expect(mcp.tools().map(({ name }) => name)).toEqual(["mcp__far__old"]);
  await mcp.stop();
  await mcp.stop();
  await mcp.start();
  const [tool] = mcp.tools();
  expect(tool?.name).toBe("mcp__far__new");
  const caller = { agentId: "a", uid: "u", run: 1, toolUseId: "t", workspace: {} as never, tellParent() {} };
  const call = { id: "t", name: "mcp__far__new", input: {} };
  const options = { offered: [call.name], clock: systemClock, stop: new StopSignal() };
  expect(await runTool(tool, call, caller, options)).toMatchObject({ isError: false, content: "found" });
});
