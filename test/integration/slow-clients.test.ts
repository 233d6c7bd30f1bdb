/** Guarantee: clients that never finish their requests shut nobody out of a worker's health port or of the board. */
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { expect, test } from "vitest";
import { createBoard } from "../../src/service/board/board.ts";
import { createHealthServer } from "../../src/worker/health/server.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";
import { slowClient } from "../helpers/slow-client.ts";
import { openStage } from "../stage/stage.ts";

/** Slow clients that come at a time: half never finish their headers, half their body. */
const CROWD = 70;
const SLOW = ["X-Slow: ", "Content-Length: 1000\r\n\r\n{"];

/** The health port of a worker, as `subagent-queue worker` opens it. */
async function openHealthPort(): Promise<string> {
  const worker = await (await openStage()).startWorker();
  const server = createHealthServer({ worker, host: "127.0.0.1", port: 0 });
  closeAtEnd(() => server.stop());
  await server.start();
  return new URL("/healthz", server.url).href;
}

async function openBoard(): Promise<string> {
  const board = createBoard({ redisUrl: redisUrl(), prefix: uniquePrefix() });
  closeAtEnd(() => board.stop());
  await board.start();
  return board.url;
}

/** The status of a request over a connection of its own. */
async function statusOf(url: string): Promise<number | undefined> {
  const sent = request(url, { agent: false }).end();
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  await once(response.resume(), "end");
  return response.statusCode;
}

test.each([
  // More clients than each has room for.
  ["a worker's health port", openHealthPort, 1],
  ["the board", openBoard, 4],
])(
  `%s answers while ${CROWD} clients at a time send slow headers or slow bodies`,
  async (_, open, crowds) => {
    const url = await open();
    const begun = `GET ${new URL(url).pathname} HTTP/1.1\r\nHost: 127.0.0.1\r\n`;
    for (let crowd = 0; crowd < crowds; crowd += 1) {
      const texts = Array.from({ length: CROWD }, (__, n) => `${begun}${SLOW[n % SLOW.length]}`);
      await Promise.all(texts.map((text) => slowClient(url, text)));
      for (let n = 0; n < 5; n += 1) expect(await statusOf(url)).toBe(200);
    }
  },
);
