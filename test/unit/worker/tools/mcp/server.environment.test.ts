import { expect, it, onTestFinished, vi } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

it("a server gets the variables that its operator gave it, and none of the worker's own keys", async () => {
  vi.stubEnv("WORKER_ONLY_SETTING", "of the worker alone");
  onTestFinished(() => void vi.unstubAllEnvs());
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const server = { command: "/bin/sh", args: ["-c", "env >&2"], env: { SHOP: "north" }, timeout_ms: 60_000 };
  const connection = new ServerConnection("near", server, { clock: systemClock, logger });
  closeAtEnd(() => connection.stop());
  await expect(connection.list()).rejects.toThrow("near is not available.");
  const line = lines.find((each) => each.includes("MCP server not available")) ?? "{}";
  const { said } = JSON.parse(line) as { said?: string };
  expect(said).toContain("SHOP=north\n");
  expect(said).toContain("PATH=");
  expect(said).not.toContain("WORKER_ONLY_SETTING");
});
