/** When a connection is made, kept and given up. */
import { expect, it } from "vitest";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { type McpAnswers, type McpMessage, startMcpServer } from "../../../../helpers/mcp.ts";

const { signal } = new AbortController();

async function connectTo(answers: McpAnswers) {
  const { url, asked } = await startMcpServer(answers);
  const clock = handClock();
  const means = { clock, logger: createLogger({ level: "silent" }) };
  const connection = new ServerConnection("far", { url, headers: {}, timeout_ms: 60_000 }, means);
  closeAtEnd(() => connection.stop());
  return { connection, clock, count: (method: string) => asked.filter((each) => each === method).length };
}

const welcome = ({ params }: McpMessage) => ({
  protocolVersion: params?.protocolVersion,
  capabilities: { tools: {} },
  serverInfo: { name: "test", version: "1" },
});

it("a server that could not be connected is tried again once the back-off is over", async () => {
  let works = false;
  const { connection, clock, count } = await connectTo({
    initialize(message) {
      if (works) return welcome(message);
      throw new Error("not yet");
    },
    "tools/call": () => ({ content: [] }),
  });
  await expect(connection.call("a", {}, signal)).rejects.toThrow("far is not available. Go on without it.");
  works = true;
  await expect(connection.call("a", {}, signal)).rejects.toThrow("it is tried again in 1 s");
  expect(count("initialize")).toBe(1);
  clock.advance(1_000);
  expect(await connection.call("a", {}, signal)).toEqual({ content: [] });
});

it("a worker that stops connects no more", async () => {
  const { connection, count } = await connectTo({ "tools/call": () => ({ content: [] }) });
  await connection.call("a", {}, signal);
  await connection.stop();
  await expect(connection.call("a", {}, signal)).rejects.toThrow("The worker stops.");
  expect(count("initialize")).toBe(1);
});

it("unusable answers count in a row: one that can be used keeps the connection", async () => {
  let calls = 0;
  const { connection, count } = await connectTo({
    "tools/call": () => (++calls % 3 === 0 ? { content: [] } : { content: "no list" }),
  });
  for (let n = 1; n <= 6; n++) {
    const called = connection.call("a", {}, signal);
    await (n % 3 === 0 ? called : expect(called).rejects.toThrow("gave no answer that can be read"));
  }
  expect(count("initialize")).toBe(1);
});

it("what is no tool counts among the 500 that are read of a list", async () => {
  const { connection, count } = await connectTo({
    "tools/list": () => ({ tools: Array(300).fill({}), nextCursor: "more" }),
  });
  expect(await connection.list()).toEqual([]);
  expect(count("tools/list")).toBe(2);
});
