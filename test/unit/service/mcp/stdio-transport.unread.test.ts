/** A connection that was closed while its client had much to read leaves its input alone: another reader may have it. */
import { PassThrough, Writable } from "node:stream";
import { expect, test } from "vitest";
import { StdioTransport } from "../../../../src/service/mcp/stdio-transport.ts";

const MOST_UNREAD_BYTES = 8 * 1_024 * 1_024;

test("the input stays paused when the client reads after the end", async () => {
  let read = () => {};
  const output = new Writable({
    highWaterMark: 1,
    write(_bytes, _encoding, done) {
      read = done;
    },
  });
  const input = new PassThrough();
  const transport = new StdioTransport({
    ...{ input, output, answered: () => {}, failed: () => {}, closed: () => {} },
  });
  await transport.start();
  const sent = transport.send({ jsonrpc: "2.0", id: 1, result: { text: "x".repeat(MOST_UNREAD_BYTES) } });
  input.write("\n");
  await new Promise(setImmediate);
  expect([input.isPaused(), output.listenerCount("drain")]).toEqual([true, 1]);
  await transport.close();
  read();
  await sent;
  await new Promise(setImmediate);
  expect([input.isPaused(), output.listenerCount("drain")]).toEqual([true, 0]);
});
