import { expect, it } from "vitest";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";

it("a server for which no transport can be made is unavailable, and tried again after the back-off", async () => {
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const server = { url: "http://", headers: {}, timeout_ms: 60_000 };
  const connection = new ServerConnection("far", server, { clock: handClock(), logger });
  await expect(connection.list()).rejects.toThrow("far is not available. Go on without it.");
  expect(connection.backoffMs, "a worker lists it again after this time").toBe(1_000);
  const { signal } = new AbortController();
  await expect(connection.call("a", {}, signal)).rejects.toThrow("it is tried again in 1 s");
  expect(lines.join("")).toContain("MCP server not available");
});
