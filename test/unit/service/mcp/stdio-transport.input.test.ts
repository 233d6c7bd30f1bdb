/** What becomes of a connection whose input is over before it begins, fails, or goes on after its end. */
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { StdioTransport } from "../../../../src/service/mcp/stdio-transport.ts";
import { latch } from "../../../helpers/latch.ts";

function scene(input: PassThrough) {
  const closed = latch();
  const [failures, messages] = [[] as string[], [] as unknown[]];
  const transport = new StdioTransport({
    ...{ input, output: new PassThrough(), answered: () => {}, closed: closed.open },
    failed: ({ message }) => failures.push(message),
  });
  transport.onmessage = (message) => messages.push(message);
  return { transport, closed: closed.opened, failures, messages };
}

test("a connection whose input has ended before it begins is over at once", async () => {
  const input = new PassThrough();
  input.end();
  input.resume();
  await new Promise((resolve) => input.once("close", resolve));
  const { transport, closed, failures } = scene(input);
  await transport.start();
  await closed;
  expect(failures).toEqual([]);
});

test("an input that fails ends the connection, with its reason", async () => {
  const input = new PassThrough();
  const { transport, closed, failures } = scene(input);
  await transport.start();
  input.destroy(new Error("read EIO"));
  await closed;
  expect(failures).toEqual(["read EIO"]);
});

test("a connection that was closed reads nothing more", async () => {
  const input = new PassThrough();
  const { transport, messages } = scene(input);
  await transport.start();
  input.write('{"jsonrpc":"2.0","method":"first"}\n');
  await transport.close();
  const seen = messages.length;
  input.write('{"jsonrpc":"2.0","method":"second"}\n');
  await new Promise(setImmediate);
  expect(messages).toHaveLength(seen);
  expect([input.isPaused(), input.listenerCount("data")]).toEqual([true, 0]);
});
