import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { createMcpTools } from "../../../../../src/worker/tools/mcp/tools.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { startMcpServer } from "../../../../helpers/mcp.ts";

it("what a server says of its tools holds none of the secrets that it was given", async () => {
  const token = "tok-in-the-list-4471";
  const tool = {
    name: `find-${token}`,
    description: `Finds what ${token} may see`,
    inputSchema: { type: "object", properties: { q: { type: "string", description: `as ${token}` } } },
  };
  const { url } = await startMcpServer({ "tools/list": () => ({ tools: [tool] }) });
  const shop = { url, headers: { Authorization: `Bearer ${token}` }, timeout_ms: 60_000 };
  const mcp = createMcpTools({ shop }, { clock: systemClock, logger: createLogger({ level: "silent" }) });
  closeAtEnd(() => mcp.stop());
  await mcp.start();
  expect(mcp.tools()).toMatchObject([
    {
      name: "mcp__shop__find-_redacted_",
      description: "Finds what [redacted] may see",
      inputSchema: { properties: { q: { description: "as [redacted]" } } },
    },
  ]);
});
