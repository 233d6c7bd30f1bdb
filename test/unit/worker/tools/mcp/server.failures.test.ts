/** What a failure means for the calls that follow. */
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { startMcpServer } from "../../../../helpers/mcp.ts";
import { until } from "../../../../helpers/until.ts";

const { signal } = new AbortController();

it("a server for which no transport can be made is unavailable, and tried again after the back-off", async () => {
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const server = { url: "http://", headers: {}, timeout_ms: 60_000 };
  const connection = new ServerConnection("far", server, { clock: handClock(), logger });
  await expect(connection.list()).rejects.toThrow("far is not available. Go on without it.");
  expect(connection.backoffMs, "a worker lists it again after this time").toBe(1_000);
  await expect(connection.call("a", {}, signal)).rejects.toThrow("it is tried again in 1 s");
  expect(lines.join("")).toContain("MCP server not available");
});

it("a server that refuses one call after another is told as refusing, and keeps its connection", async () => {
  const { url, asked } = await startMcpServer({
    "tools/call"() {
      throw new Error("no such city");
    },
  });
  const means = { clock: handClock(), logger: createLogger({ level: "silent" }) };
  const connection = new ServerConnection("far", { url, headers: {}, timeout_ms: 60_000 }, means);
  closeAtEnd(() => connection.stop());
  for (let n = 1; n <= 4; n++) {
    const refused = connection.call("a", {}, signal);
    await expect(refused).rejects.toThrow("far refused the call: Error: no such city");
  }
  expect(asked.filter((method) => method === "initialize")).toHaveLength(1);
});

it("a server whose messages cannot be read may send 1,000 of them a second; beyond that it is cut off, once", async () => {
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const { url } = await startMcpServer({
    GET(_, response) {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write("data: no JSON\n\n".repeat(1_100));
      return undefined;
    },
    "tools/call": () => undefined,
  });
  const means = { clock: handClock(), logger };
  const connection = new ServerConnection("far", { url, headers: {}, timeout_ms: 60_000 }, means);
  closeAtEnd(() => connection.stop());
  const why = "it sent more than 1000 messages a second";
  await expect(connection.call("a", {}, signal)).rejects.toThrow(`far broke off during this call (${why})`);
  expect(lines.filter((line) => line.includes("goes beyond its bounds"))).toHaveLength(1);
});

it("a server that ends between two calls is started again for the next one, which succeeds", async () => {
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const welcome = {
    protocolVersion: "2025-06-18",
    capabilities: {},
    serverInfo: { name: "t", version: "1" },
  };
  const say = (id: number, result: object) => `echo '${JSON.stringify({ jsonrpc: "2.0", id, result })}'`;
  // It reads the handshake of two messages and one call, and ends.
  const script = `read a; ${say(0, welcome)}; read b; read c; ${say(1, { content: [] })}`;
  const server = { command: "/bin/sh", args: ["-c", script], env: {}, timeout_ms: 60_000 };
  const connection = new ServerConnection("near", server, { clock: systemClock, logger });
  closeAtEnd(() => connection.stop());
  expect(await connection.call("a", {}, signal)).toEqual({ content: [] });
  await until(() => lines.some((line) => line.includes("MCP server broke off")));
  expect(await connection.call("a", {}, signal)).toEqual({ content: [] });
});
