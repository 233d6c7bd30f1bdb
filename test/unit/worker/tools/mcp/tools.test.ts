import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { createMcpTools } from "../../../../../src/worker/tools/mcp/tools.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { startMcpServer } from "../../../../helpers/mcp.ts";

/** A schema of so many objects in one another, twice as many with their lists of properties. */
function nested(objects: number): Record<string, unknown> {
  let schema: Record<string, unknown> = { type: "object" };
  for (let n = 1; n < objects; n++) schema = { type: "object", properties: { inner: schema } };
  return schema;
}

it("shows a deep schema whole while secrets are known, and leaves out once what is too deep to be searched for them", async () => {
  const schemas = { flat: nested(1), deep: nested(20), deepest: nested(64), deeper: nested(65) };
  const listed = Object.entries(schemas).map(([name, inputSchema]) => ({ name, inputSchema }));
  const { url } = await startMcpServer({ "tools/list": () => ({ tools: listed }) });
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const far = { url, headers: { Authorization: "Bearer tok-5d1e8c33a0" }, timeout_ms: 60_000 };
  const mcp = createMcpTools({ far }, { clock: systemClock, logger });
  closeAtEnd(() => mcp.stop());
  await mcp.start();
  const shown = mcp.tools().map(({ name, inputSchema }) => [name, inputSchema]);
  expect(Object.fromEntries(shown)).toEqual({
    mcp__far__flat: schemas.flat,
    mcp__far__deep: schemas.deep,
    mcp__far__deepest: schemas.deepest,
  });
  const left = lines.filter((line) => line.includes("MCP tool left out"));
  expect(left).toEqual([expect.stringContaining('"tool":"deeper"')]);
});
