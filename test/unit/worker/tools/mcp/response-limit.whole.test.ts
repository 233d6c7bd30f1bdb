/** Streams that the client reads as a whole, because it wants no events of them: then they have no more bytes than a body. */
import { createServer } from "node:http";
import { expect, it } from "vitest";
import { boundedFetch } from "../../../../../src/worker/tools/mcp/response-limit.ts";
import { listenUntilEnd } from "../../../../helpers/listen.ts";

const LIMITS = { bytes: 1_000, values: 100, depth: 20 };
const EVENTS = `data: ${"x".repeat(500)}\n\n`.repeat(3);

/** Sends a message, or asks for a stream, and reads the answer as a whole: three events with this status. */
async function answerTo(message: object | undefined, status: number, type = "text/event-stream") {
  const headers = { "Content-Type": type };
  const server = createServer((_, response) => void response.writeHead(status, headers).end(EVENTS));
  const init = message && { method: "POST", body: JSON.stringify(message) };
  const response = await boundedFetch(LIMITS, () => {})(await listenUntilEnd(server), init);
  return response.text();
}

const call = { method: "tools/call", params: {}, jsonrpc: "2.0", id: 1 };

it("the events of a stream are bounded each by itself, be it the answer to a call or asked for", async () => {
  for (const message of [call, undefined]) expect(await answerTo(message, 200)).toBe(EVENTS);
});

it.for<[string, object | undefined, number, string?]>([
  ["an error", call, 500],
  ["a stream that is refused", undefined, 404],
  ["a call that is only accepted", call, 202],
  ["a call whose type is another one", call, 200, "text/event-stream-x"],
  ["a call whose type is two", call, 200, "text/event-stream;a=b, text/html"],
  ["what is told, as a cancellation", { method: "notifications/cancelled", params: { id: 1 } }, 200],
  ["an answer of this side", { id: 1, result: { method: "ping" } }, 200],
])("the answer to %s is bounded as a whole", async ([, message, status, type]) => {
  await expect(answerTo(message, status, type)).rejects.toThrow("it is longer than 1000 bytes");
});
