/** Guarantee: a server of MCP gets no null for an optional field that a model omits, unless its schema knows null. */
import { expect, test } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { createMcpTools } from "../../../../../src/worker/tools/mcp/tools.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { startMcpServer } from "../../../../helpers/mcp.ts";

test("null is left out where the schema has another type, and stays where it is required or may be null", async () => {
  const properties = {
    query: { type: "string" },
    limit: { type: "integer" },
    cursor: { type: ["string", "null"] },
    sort: { anyOf: [{ type: "string" }, { type: "null" }] },
    tags: { type: ["array", "string"] },
  };
  const inputSchema = { type: "object", properties, required: ["query"] };
  const { url } = await startMcpServer({ "tools/list": () => ({ tools: [{ name: "find", inputSchema }] }) });
  const logger = createLogger({ level: "silent" });
  const mcp = createMcpTools(
    { far: { url, headers: {}, timeout_ms: 60_000 } },
    { clock: systemClock, logger },
  );
  closeAtEnd(() => mcp.stop());
  await mcp.start();
  const input = { query: null, limit: null, cursor: null, sort: null, tags: null, more: null };
  const left = { query: null, cursor: null, sort: null, more: null };
  expect(await mcp.tools()[0]?.check(input)).toEqual({ ok: true, input: left });
  const given = { query: "a", limit: 3 };
  expect(await mcp.tools()[0]?.check(given)).toEqual({ ok: true, input: given });
});
