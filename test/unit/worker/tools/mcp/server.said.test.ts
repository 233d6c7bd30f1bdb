import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

it("of a server that wrote much before it failed, the log holds the last words", async () => {
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const words =
    "i=0; while [ $i -lt 400 ]; do echo line-$i-of-much >&2; i=$((i+1)); done; echo no licence >&2";
  const server = { command: "/bin/sh", args: ["-c", words], env: {}, timeout_ms: 60_000 };
  const connection = new ServerConnection("near", server, { clock: systemClock, logger });
  closeAtEnd(() => connection.stop());
  await expect(connection.list()).rejects.toThrow("near is not available.");
  const line = lines.find((each) => each.includes("MCP server not available")) ?? "{}";
  expect(JSON.parse(line).said).toMatch(/line-399-of-much\nno licence\n$/);
});
