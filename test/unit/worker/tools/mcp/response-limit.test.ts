import { createServer, type RequestListener } from "node:http";
import { expect, it } from "vitest";
import { boundedFetch } from "../../../../../src/worker/tools/mcp/response-limit.ts";
import { latch } from "../../../../helpers/latch.ts";
import { listenUntilEnd } from "../../../../helpers/listen.ts";

const BOUND = 1_000;

/** Reads what a server answers, with a bound of 1,000 bytes. */
async function read(answer: RequestListener) {
  const url = await listenUntilEnd(createServer(answer));
  let told = 0;
  const response = await boundedFetch(BOUND, () => void told++)(url);
  return { response, text: response.text(), told: () => told };
}

const plain = (body: string): RequestListener => {
  return (_, response) => void response.writeHead(201, { "X-Kept": "yes" }).end(body);
};
const events = (body: string): RequestListener => {
  return (_, response) => void response.writeHead(200, { "Content-Type": "text/event-stream" }).end(body);
};
const line = (bytes: number) => `data: ${"x".repeat(bytes - 6)}`;

it("hands on what keeps within its bound as it is: status, headers and body, or none", async () => {
  const { response, text, told } = await read(plain("x".repeat(BOUND)));
  expect([response.status, response.headers.get("x-kept")]).toEqual([201, "yes"]);
  expect(await text).toHaveLength(BOUND);
  expect(told()).toBe(0);
  const none = await read((_, answer) => void answer.writeHead(204).end());
  expect([none.response.status, await none.text]).toEqual([204, ""]);
});

it("ends a body that is longer, and its connection with it, though the server goes on", async () => {
  const closed = latch();
  const { text, told } = await read((_, response) => {
    response.once("close", closed.open);
    response.write("x".repeat(BOUND + 1));
  });
  await expect(text).rejects.toThrow("it is longer than 1000 bytes");
  await closed.opened;
  expect(told()).toBe(1);
});

it.for(["\n", "\r\n", "\r"])(
  "counts each event of a stream by itself, whose lines end with %j",
  async (end) => {
    const body = `${line(400)}${end}${line(500)}${end}${end}`.repeat(20);
    const stream = await read(events(body));
    expect(await stream.text).toHaveLength(body.length);
    const long = await read(events(`${line(600)}${end}${line(600)}${end}${end}`));
    await expect(long.text).rejects.toThrow("it is longer than 1000 bytes");
    expect([stream.told(), long.told()]).toEqual([0, 1]);
  },
);
