/** Guarantee: a server that answers plain calls for months keeps nothing of those that it has answered. */
import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { createMcpServer } from "../../../src/service/mcp/server.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { StopSignal } from "../../../src/shared/stop-signal.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { openStage } from "../../stage/stage.ts";

test("a plain call that was answered is told of no stop any more", async () => {
  const stage = await openStage();
  const parent = stage.parent("planner-7");
  const stop = new StopSignal();
  const told = { begun: 0, stopped: 0 };
  const onStop = (tell: () => void) => {
    told.begun += 1;
    return stop.onStop(() => {
      told.stopped += 1;
      tell();
    });
  };
  const build = () => createMcpServer({ parent, clock: systemClock, answerWithinMs: 0, onStop });
  const url = await listenUntilEnd(createServer(toNodeHandler(createMcpHandler(build))));
  const call = { name: "task", arguments: { prompt: "go" } };
  const { result } = await askMcp(`${url}/mcp`, "tools/call", call, { followsTasks: false });
  expect(result).toMatchObject({ structuredContent: { status: "working" } });
  stop.stop();
  expect(told).toEqual({ begun: 1, stopped: 0 });
});
