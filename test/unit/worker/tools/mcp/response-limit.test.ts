import { createServer, type RequestListener } from "node:http";
import { describe, expect, it } from "vitest";
import { boundedFetch } from "../../../../../src/worker/tools/mcp/response-limit.ts";
import { latch } from "../../../../helpers/latch.ts";
import { listenUntilEnd } from "../../../../helpers/listen.ts";

const BOUND = 1_000;

/** Reads what a server answers, with a bound of 1,000 bytes. */
async function read(answer: RequestListener) {
  const url = await listenUntilEnd(createServer(answer));
  let told = 0;
  const response = await boundedFetch({ bytes: BOUND, values: 100, depth: 20 }, () => void told++)(url);
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

describe("what lies too deep in one another", () => {
  const deep = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;

  it("is not handed on, as JSON or as an event", async () => {
    expect(await (await read(plain(deep(20)))).text).toBe(deep(20));
    for (const answer of [plain(deep(21)), events(`data: ${"]".repeat(50)}\ndata: ${"[{".repeat(11)}\n\n`)]) {
      const { text, told } = await read(answer);
      await expect(text).rejects.toThrow("it is deeper than 20 levels");
      expect(told()).toBe(1);
    }
  });

  it("is found whatever quotes stand before it, and texts may hold any brackets", async () => {
    const odd = ['"\\"["', '"\\\\"', `"${"[".repeat(50)}"`, '"]\\u005b"'].join(",");
    expect(await (await read(plain(`[${odd}]`))).text).toContain("[[[[");
    for (const answer of [plain(`[${odd},${deep(20)}]`), events(`: it's "\ndata: ${deep(21)}\n\n`)])
      await expect((await read(answer)).text).rejects.toThrow("it is deeper than 20 levels");
    const apart = `data: ${"[".repeat(15)}\n\n`.repeat(3);
    expect(await (await read(events(apart))).text).toBe(apart);
  });
});

it("is not handed on with more values than its bound: members of lists and objects, not commas of texts", async () => {
  const some = ['[1,"a,b,{",{"c":[]}]', `"${",{".repeat(200)}"`, `[${Array(99).fill("1")}]`, '{"a":1,"b":2}'];
  for (const body of some) expect(await (await read(plain(body))).text).toBe(body);
  const apart = `data: [${Array(90).fill("1")}]\n\n`.repeat(3);
  expect(await (await read(events(apart))).text).toBe(apart);
  const many = [Array(101).fill("1"), Array(51).fill("{}"), Array(51).fill('"a":[]')].map(
    (each) => `[${each}]`,
  );
  for (const body of many) {
    const { text, told } = await read(plain(body));
    await expect(text).rejects.toThrow("it holds more than 100 values");
    expect(told()).toBe(1);
  }
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
