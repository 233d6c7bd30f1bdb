import type { ServerResponse } from "node:http";
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { type McpAnswers, type McpMessage, startMcpServer } from "../../../../helpers/mcp.ts";
import { until } from "../../../../helpers/until.ts";

const EVENTS = { "Content-Type": "text/event-stream" };
const { signal } = new AbortController();
const result = { content: [{ type: "text", text: "done" }] };
const eventOf = ({ id }: McpMessage) => `data: ${JSON.stringify({ jsonrpc: "2.0", id, result })}\n\n`;

/** A server that answers calls so, and the responses to its calls that are still open. */
async function connectTo(
  call: McpAnswers[string],
  { clock = systemClock, timeout_ms = 60_000, answers = {} as McpAnswers } = {},
) {
  const open = new Set<ServerResponse>();
  const { url } = await startMcpServer({
    "tools/call"(message, response) {
      open.add(response);
      response.once("close", () => open.delete(response));
      return call(message, response);
    },
    ping: () => ({}),
    ...answers,
  });
  const means = { clock, logger: createLogger({ level: "silent" }) };
  const connection = new ServerConnection("far", { url, headers: {}, timeout_ms }, means);
  closeAtEnd(() => connection.stop());
  return { connection, open };
}

/** Begins a stream, and never ends it. */
const streamOnly: McpAnswers[string] = (_, response) => {
  response.writeHead(200, EVENTS).write(": at work\n\n");
  return undefined;
};
const nothing: McpAnswers[string] = () => undefined;

it.for([
  ["begun a stream", streamOnly],
  ["said nothing", nothing],
] as const)("a call that is cancelled ends its request, where the server has %s", async ([, answer]) => {
  const { connection, open } = await connectTo(answer);
  const cancelling = new AbortController();
  const called = connection.call("a", {}, cancelling.signal);
  const refused = expect(called).rejects.toThrow("the call was cancelled");
  await until(() => open.size === 1);
  cancelling.abort();
  await refused;
  await until(() => open.size === 0);
});

it("a call without an answer in its time ends its request, and no other", async () => {
  const { connection, open } = await connectTo(streamOnly, { timeout_ms: 1_000 });
  await expect(connection.call("a", {}, signal)).rejects.toThrow("did not answer within 1 s");
  const second = expect(connection.call("a", {}, signal)).rejects.toThrow("did not answer within 1 s");
  await until(() => open.size === 1);
  await second;
  await until(() => open.size === 0);
});

it("a request ends a second after its answer, if the server does not end it", async () => {
  const clock = handClock();
  const { connection, open } = await connectTo(
    (message, response) => {
      response.writeHead(200, EVENTS).write(eventOf(message));
      return undefined;
    },
    { clock },
  );
  expect(await connection.call("a", {}, signal)).toMatchObject(result);
  clock.advance(999);
  expect(await connection.call("a", {}, signal)).toMatchObject(result);
  expect(open.size).toBe(2);
  clock.advance(1);
  await until(() => open.size === 1);
  clock.advance(1_000);
  await until(() => open.size === 0);
});

it.for<[string, McpAnswers[string]]>([
  ["as JSON", () => result],
  [
    "in a stream that ends",
    (message, response) => {
      response.writeHead(200, EVENTS).end(eventOf(message));
      return undefined;
    },
  ],
])("the connection of a request that the server ends is used again: %s", async ([, answer]) => {
  const clock = handClock();
  const sockets = new Set<unknown>();
  const { connection } = await connectTo(
    (message, response) => {
      sockets.add(response.socket);
      return answer(message, response);
    },
    { clock },
  );
  for (let n = 0; n < 20; n++) {
    await connection.call("a", {}, signal);
    await until(() => clock.pending === 0);
  }
  expect(sockets.size, "those of connecting are used as well").toBeLessThan(5);
});

it("a cancellation that the server does not take ends after ten seconds", async () => {
  const clock = handClock();
  const cancellations: ServerResponse[] = [];
  const { connection, open } = await connectTo(streamOnly, {
    clock,
    answers: { "notifications/cancelled": (_, response) => void cancellations.push(response) },
  });
  const cancelling = new AbortController();
  const refused = expect(connection.call("a", {}, cancelling.signal)).rejects.toThrow("cancelled");
  await until(() => open.size === 1);
  cancelling.abort();
  await refused;
  await until(() => cancellations.length === 1);
  clock.advance(9_999);
  expect(cancellations[0]?.closed).toBe(false);
  clock.advance(1);
  await until(() => cancellations[0]?.closed === true);
});
