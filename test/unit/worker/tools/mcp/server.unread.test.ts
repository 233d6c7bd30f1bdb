/** Unusable answers end a connection only as a row of their own: a call on the next connection does not suffer for them. */
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { startMcpServer } from "../../../../helpers/mcp.ts";

const { signal } = new AbortController();

/** The number of connections that the server has had after each of these calls: its tools are `bad` and `refused`. */
async function connectionsAfter(calls: readonly string[]): Promise<number[]> {
  const { url, asked } = await startMcpServer({
    "tools/call"({ params }) {
      if (params?.name === "refused") throw new Error("no such city");
      return { content: "no list" };
    },
  });
  const means = { clock: systemClock, logger: createLogger({ level: "silent" }) };
  const connection = new ServerConnection("far", { url, headers: {}, timeout_ms: 60_000 }, means);
  closeAtEnd(() => connection.stop());
  const connections: number[] = [];
  for (const name of calls) {
    await expect(connection.call(name, {}, signal)).rejects.toThrow("far");
    connections.push(asked.filter((method) => method === "initialize").length);
  }
  return connections;
}

it("the answers that ended a connection do not count on the next one", async () => {
  expect(await connectionsAfter(Array(7).fill("bad"))).toEqual([1, 1, 1, 2, 2, 2, 3]);
});

it("a refusal can be read, so it ends the row", async () => {
  expect(await connectionsAfter(["bad", "bad", "refused", "bad", "bad"])).toEqual([1, 1, 1, 1, 1]);
});
