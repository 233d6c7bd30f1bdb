/** Two addresses that are read as they stand: readiness, of which no cache keeps an old answer, and a parent of MCP without a name. */
import { beforeAll, expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { startApi, type TestApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

let api: TestApi;

beforeAll(async () => {
  const stage = await openStage();
  api = await startApi({ client: stage.client(), mounts: [mcpMount()] });
});

test.each(["/healthz", "/readyz"])("%s is for no cache", async (path) => {
  const { status, headers } = await api.ask("GET", path);
  expect([status, headers.get("cache-control")]).toEqual([200, "no-store"]);
});

test("a client of MCP whose variable is empty gets no other parent", async () => {
  const body = { jsonrpc: "2.0", id: 1, method: "tools/list" };
  const headers = { accept: "application/json, text/event-stream" };
  const { status, body: problem } = await api.ask("POST", "/mcp?parent=", { body, headers });
  expect(status).toBe(400);
  expect(problem).toMatchObject({ code: "invalid_input" });
  expect((await api.ask("POST", "/mcp", { body, headers })).status).not.toBe(400);
});
