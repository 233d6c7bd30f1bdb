/** A plain MCP call is answered before its client gives up, also if the sub-agent needs longer. */
import { expect, test } from "vitest";
import { createApi } from "../../../src/service/api/api.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { openStage } from "../../stage/stage.ts";

/** The time after which clients of the protocol give up, and one that leaves a slow network some of it. */
const [GIVES_UP_MS, SOONEST_MS] = [60_000, 30_000];

test("a plain call is told before 60 s have passed that its sub-agent goes on", async () => {
  const stage = await openStage();
  /** Lets a time limit between the two pass at once. */
  const clock: Clock = {
    ...systemClock,
    timeout: (ms, callback) => systemClock.timeout(ms >= SOONEST_MS && ms < GIVES_UP_MS ? 0 : ms, callback),
  };
  const api = createApi({ client: stage.client(), mounts: [mcpMount()], clock });
  closeAtEnd(() => api.stop());
  await api.start();
  const url = `${api.url}/mcp?parent=planner-7`;
  const signal = AbortSignal.timeout(15_000);
  const call = { name: "task", arguments: { prompt: "go" } };
  const { result } = await askMcp(url, "tools/call", call, { followsTasks: false, signal });
  expect(result).toMatchObject({ structuredContent: { agent_id: "task", status: "working" } });
});
