/** Guarantee: a server whose streams last, or that answers, is asked for the next stream as soon as at first. */
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { startMcpServer } from "../../../../helpers/mcp.ts";
import { until } from "../../../../helpers/until.ts";

const { signal } = new AbortController();

/** A server with a stream that the test ends: `waitAfter` returns how long the next one is waited for, s. */
async function streaming() {
  const clock = handClock();
  const streams: ServerResponse[] = [];
  const { url } = await startMcpServer({
    GET(_, response) {
      response.writeHead(200, { "Content-Type": "text/event-stream" }).flushHeaders();
      streams.push(response);
      return undefined;
    },
    "notifications/initialized": (_, response) => void response.writeHead(202).end(),
    "tools/call": () => ({ content: [] }),
  });
  const logger = createLogger({ level: "silent" });
  const connection = new ServerConnection("far", { url, headers: {}, timeout_ms: 60_000 }, { clock, logger });
  closeAtEnd(() => connection.stop());
  const call = () => connection.call("a", {}, signal);
  await call();
  const waitAfter = async (openMs: number) => {
    await until(() => streams.length === 1 && clock.pending === 0);
    clock.advance(openMs);
    streams.pop()?.end("retry: 0\n\n");
    await until(() => clock.pending === 1);
    let seconds = 0;
    for (; clock.pending === 1; seconds++) clock.advance(1_000);
    return seconds;
  };
  return { call, waitAfter };
}

test("a stream that was open for five seconds lets the pauses begin again, a shorter one does not", async () => {
  const { waitAfter } = await streaming();
  expect([await waitAfter(0), await waitAfter(0), await waitAfter(4_999)]).toEqual([1, 2, 4]);
  expect([await waitAfter(5_000), await waitAfter(0)]).toEqual([1, 2]);
});

test("an answer lets the pauses begin again", async () => {
  const { call, waitAfter } = await streaming();
  expect([await waitAfter(0), await waitAfter(0)]).toEqual([1, 2]);
  await call();
  expect(await waitAfter(0)).toBe(1);
});
