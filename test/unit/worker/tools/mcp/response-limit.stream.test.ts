/** What counts as a stream, and where one of its events ends. */
import { createServer } from "node:http";
import { expect, it } from "vitest";
import { boundedFetch } from "../../../../../src/worker/tools/mcp/response-limit.ts";
import { listenUntilEnd } from "../../../../helpers/listen.ts";

const LIMITS = { bytes: 1_000, values: 100, depth: 20 };

async function read(type: string, body: string): Promise<string> {
  const url = await listenUntilEnd(
    createServer((_, response) => void response.writeHead(200, { "Content-Type": type }).end(body)),
  );
  const response = await boundedFetch(LIMITS, () => {})(url);
  return response.text();
}

it("a stream may be longer than one event in whatever letters its type is written", async () => {
  const body = `data: ${"x".repeat(500)}\n\n`.repeat(3);
  expect(await read("Text/Event-Stream; charset=utf-8", body)).toBe(body);
});

it("a line that ends with a blank, or holds nothing else, ends no event", async () => {
  const line = `data: ${"x".repeat(500)}`;
  for (const body of [`${line} \n`.repeat(3), `${line}\n \n`.repeat(3)])
    await expect(read("text/event-stream", body)).rejects.toThrow("it is longer than 1000 bytes");
});
