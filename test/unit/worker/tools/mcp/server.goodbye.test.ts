import { expect, it } from "vitest";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { latch } from "../../../../helpers/latch.ts";
import { startMcpServer } from "../../../../helpers/mcp.ts";

it("a session whose connection was given up half-way is ended once", async () => {
  const [clock, begun] = [handClock(), latch()];
  let ended = 0;
  const { url } = await startMcpServer({
    initialize({ params }, response) {
      response.setHeader("Mcp-Session-Id", "session-1");
      return {
        protocolVersion: params?.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: "test", version: "1" },
      };
    },
    "notifications/initialized"(_, response) {
      response.writeHead(200, { "Content-Type": "application/json" }).write(" ");
      begun.open();
      return undefined;
    },
    DELETE(_, response) {
      ended += 1;
      response.writeHead(200).end();
      return undefined;
    },
  });
  const means = { clock, logger: createLogger({ level: "silent" }) };
  const connection = new ServerConnection("far", { url, headers: {}, timeout_ms: 60_000 }, means);
  closeAtEnd(() => connection.stop());
  const listing = expect(connection.list()).rejects.toThrow("far is not available. Go on without it.");
  await begun.opened;
  clock.advance(10_000);
  await listing;
  expect(ended).toBe(1);
});
