/** How a connection over standard input and output ends. */
import { PassThrough, Writable } from "node:stream";
import { expect, test } from "vitest";
import { StdioTransport } from "../../../../src/service/mcp/stdio-transport.ts";
import { latch } from "../../../helpers/latch.ts";

test("a connection ends with its input, and its client asked for that", async () => {
  const input = new PassThrough();
  const [closed, failures] = [latch(), [] as string[]];
  const transport = new StdioTransport({
    ...{ input, output: new PassThrough(), answered: () => {}, closed: closed.open },
    failed: ({ message }) => failures.push(message),
  });
  await transport.start();
  input.end();
  await closed.opened;
  expect(failures).toEqual([]);
});

test("a client that takes no more answers ends the connection, once, with its reason", async () => {
  const output = new Writable({ write: (_bytes, _encoding, done) => done(new Error("write EPIPE")) });
  let closings = 0;
  const failures: string[] = [];
  const transport = new StdioTransport({
    ...{ input: new PassThrough(), output, answered: () => failures.push("answered") },
    failed: ({ message }) => failures.push(message),
    closed: () => {
      closings += 1;
    },
  });
  await transport.start();
  const answer = { jsonrpc: "2.0" as const, id: 1, result: {} };
  await expect(transport.send(answer)).rejects.toThrow("EPIPE");
  await transport.close();
  await transport.send(answer);
  expect(failures).toEqual(["write EPIPE"]);
  expect(closings).toBe(1);
});
