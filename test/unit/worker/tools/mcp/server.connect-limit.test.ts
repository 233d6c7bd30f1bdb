import { expect, it } from "vitest";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { latch } from "../../../../helpers/latch.ts";
import { startMcpServer } from "../../../../helpers/mcp.ts";

it("both messages of connecting have ten seconds together", async () => {
  const clock = handClock();
  const begun = latch();
  const { url } = await startMcpServer({
    initialize({ params }) {
      clock.advance(6_000);
      return {
        protocolVersion: params?.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: "test", version: "1" },
      };
    },
    "notifications/initialized"() {
      begun.open();
      return undefined;
    },
  });
  const means = { clock, logger: createLogger({ level: "silent" }) };
  const connection = new ServerConnection("far", { url, headers: {}, timeout_ms: 60_000 }, means);
  closeAtEnd(() => connection.stop());
  const listing = expect(connection.list()).rejects.toThrow("far is not available. Go on without it.");
  await begun.opened;
  clock.advance(4_000);
  await listing;
});
