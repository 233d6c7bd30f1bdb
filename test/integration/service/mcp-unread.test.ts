/** Guarantee: an answer of MCP that its client could only leave unread is refused, and what it brings stays. */

import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { holdUnread } from "../../../src/service/api/json-answer.ts";
import type { Mount } from "../../../src/service/api/mount.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { createMcpServer } from "../../../src/service/mcp/server.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { SubagentError } from "../../../src/shared/errors.ts";
import { startApi } from "../../helpers/api.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("replies and tasks are counted and may be refused, unacked; what tells of a change is not", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const parent = stage.parent("planner-7");
  const [sizes, acks]: [number[], unknown[]] = [[], []];
  let isFull = true;
  const build = () =>
    createMcpServer({
      ...{ parent, clock: systemClock, onceAnswered: (_id, ack) => void acks.push(ack) },
      admit(bytes) {
        sizes.push(bytes);
        if (isFull) throw new SubagentError("rate_limited", "Read your answers.");
      },
    });
  const url = `${await listenUntilEnd(createServer(toNodeHandler(createMcpHandler(build))))}/mcp`;
  const call = (name: string, given: object, followsTasks = false) =>
    askMcp(url, "tools/call", { name, arguments: given }, { followsTasks });

  expect((await call("spawn_sub_agent", { name: "helper" })).result).not.toHaveProperty("isError");
  expect((await call("list_sub_agents", {})).result).not.toHaveProperty("isError");
  expect(sizes).toEqual([]);
  const said = (text: string) => ({ isError: true, content: [{ type: "text", text }] });
  const refused = (await call("task", { prompt: "go" })).result;
  expect(refused).toEqual(
    expect.objectContaining(
      said("Read your answers. The reply of sub-agent task stays: call check_sub_agent with this agent_id."),
    ),
  );
  expect((await call("check_sub_agent", { agent_id: "task" })).result).toMatchObject(
    said("Read your answers."),
  );
  const taskId = String((await call("task", { prompt: "go" }, true)).result?.taskId);
  const { error } = await askMcp(url, "tasks/get", { taskId });
  expect(error).toMatchObject({
    message: "Read your answers.",
    data: { code: "rate_limited", retryable: true },
  });
  expect(sizes).toHaveLength(3);
  expect(acks).toEqual([]);

  isFull = false;
  const told = (await call("check_sub_agent", { agent_id: "task" })).result;
  expect(Buffer.byteLength(JSON.stringify(told))).toBeGreaterThanOrEqual(sizes.at(-1) ?? Number.NaN);
  expect(acks).toHaveLength(1);
});

test("over HTTP they count with the other answers that a tenant leaves unread, until these have ended", async () => {
  const stage = await openStage();
  // An answer as large as all that a tenant may leave unread.
  const large: Mount = {
    ...{ path: "/large", scope: "read" },
    handler: () => (request, response) => {
      holdUnread(request, response, 128 * 1_024 * 1_024);
      response.write("begun");
    },
  };
  const { url } = await startApi({ client: stage.client(), mounts: [mcpMount(), large] });
  await stage.parent("planner-7").spawn({ name: "helper" });
  const check = async () => {
    const params = { name: "check_sub_agent", arguments: { agent_id: "helper" } };
    return (await askMcp(`${url}/mcp?parent=planner-7`, "tools/call", params)).result;
  };
  expect(await check()).not.toHaveProperty("isError");
  const leaving = new AbortController();
  await fetch(`${url}/large`, { signal: leaving.signal });
  expect(JSON.stringify(await check())).toContain(
    "Answers that this tenant's clients have not read fill their 128 MiB of this process: read them, or try another",
  );
  leaving.abort();
  await until(async () => !("isError" in ((await check()) ?? {})));
});
