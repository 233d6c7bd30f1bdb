import { createServer, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { createSender } from "../../../../src/service/webhooks/request.ts";
import { OLDEST } from "../../../../src/shared/protocol/reply.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { listenUntilEnd } from "../../../helpers/listen.ts";
import { until } from "../../../helpers/until.ts";
import { sampleReply } from "../../cli/sample-reply.ts";

/** As long as a receiver may take. */
const ANSWER_MS = 15_000;

/** A receiver that answers as `answer` does, and a sender whose time stands still until the test moves it. */
async function scene(answer: (response: ServerResponse) => void, reach: "any" | "public" = "any") {
  const seen = { requests: 0, connections: 0, cut: 0, ids: [] as unknown[] };
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      seen.requests += 1;
      const headers = Object.entries(request.headers).map(([name, value]) => [name, String(value)]);
      new Webhook(webhook.secret).verify(body, Object.fromEntries(headers));
      seen.ids.push(request.headers["webhook-id"]);
      response.on("close", () => {
        if (!response.writableFinished) seen.cut += 1;
      });
      answer(response);
    });
  });
  server.keepAliveTimeout = 0;
  server.on("connection", () => {
    seen.connections += 1;
  });
  const webhook = {
    v: "1" as const,
    url: `${await listenUntilEnd(server)}/hook`,
    secret: "whsec_AAAA",
    created_at: "2026-11-10T00:00:00.000Z",
    failures: 0,
    after: OLDEST,
    newest: OLDEST,
  };
  const clock = handClock();
  const sender = createSender(reach, clock);
  closeAtEnd(() => sender.close());
  return { seen, clock, send: (entry = sampleReply()) => sender.send(webhook, entry, Date.now()) };
}

test("a receiver that answers 200 and goes on with a byte now and then is left when its time is up; its 200 counts", async () => {
  let bytes = 0;
  const { seen, clock, send } = await scene((response) => {
    response.writeHead(200).write(".");
    const trickle = setInterval(() => {
      response.write(".");
      bytes += 1;
    }, 10);
    response.on("close", () => clearInterval(trickle));
  });
  const sent = send();
  // Each byte is written in a later turn of the event loop: the first ones have been read by now.
  await until(() => bytes >= 3);
  clock.advance(ANSWER_MS);
  expect(await sent).toEqual({ status: "taken" });
  await until(() => seen.cut === 1);
  expect(clock.pending).toBe(0);
});

test("a receiver that sends no status in its time has not answered", async () => {
  const { seen, clock, send } = await scene(() => {});
  const sent = send();
  await until(() => seen.requests === 1);
  clock.advance(ANSWER_MS);
  expect(await sent).toEqual({ status: "failed", problem: "The receiver has not answered within 15 s." });
  await until(() => seen.cut === 1);
});

test("of an answer 64 KB are read: a longer one is cut off, and its 200 counts", async () => {
  const { seen, send } = await scene((response) => void response.writeHead(200).write("x".repeat(100_000)));
  expect(await send()).toEqual({ status: "taken" });
  await until(() => seen.cut === 1);
});

test("an answer that ends leaves its connection to later requests, and no timer", async () => {
  const { seen, clock, send } = await scene((response) => {
    response.writeHead(200).flushHeaders();
    // Behind its status, as from a receiver that is far away.
    setTimeout(() => response.end("thanks"), 5);
  });
  for (let request = 1; request <= 10; request++) expect(await send()).toEqual({ status: "taken" });
  expect(seen).toMatchObject({ requests: 10, cut: 0 });
  // The next one may come a moment before the connection is given back.
  expect(seen.connections).toBeLessThanOrEqual(2);
  expect(clock.pending).toBe(0);
});

test("whatever id its provider gave a tool call, the entry is sent under it, signed, and two ids stay two", async () => {
  const { seen, send } = await scene((response) => response.writeHead(200).end());
  const uid = "sa-000000000000000000000001";
  const usual = `${uid}.1.3/toolu_01A-b_c`;
  const ids = [usual, `${uid}.1/a\nb`, `${uid}.1/a%0Ab`, `${uid}.1/\u20ac \u{1F600}\u007f`, "x".repeat(256)];
  for (const reply_id of ids) expect(await send(sampleReply({ reply_id }))).toEqual({ status: "taken" });
  expect(seen.ids).toEqual([
    ...[usual, `${uid}.1/a%0ab`, `${uid}.1/a%250Ab`, `${uid}.1/%e2%82%ac%20%f0%9f%98%80%7f`],
    "x".repeat(256),
  ]);
  expect(seen.ids.map((id) => decodeURIComponent(String(id)))).toEqual(ids);
});

test("an entry of which no request can be made is refused: its receiver was not asked", async () => {
  const { seen, send } = await scene((response) => response.writeHead(200).end());
  const output: Record<string, unknown> = {};
  output.itself = output;
  expect(await send(sampleReply({ output }))).toEqual({
    status: "refused",
    problem: expect.stringMatching(/circular/),
  });
  expect(seen.requests).toBe(0);
});

test("a redirection is no ack: its entry stays", async () => {
  const { seen, send } = await scene((response) => response.writeHead(302, { location: "/other" }).end());
  expect(await send()).toEqual({ status: "refused", problem: "The receiver answered 302." });
  expect(seen.requests).toBe(1);
});

test("an address that was set while private ones were allowed is not reached once they are not", async () => {
  const { seen, send } = await scene((response) => response.writeHead(200).end(), "public");
  expect(await send()).toMatchObject({ status: "failed" });
  expect(seen.connections).toBe(0);
});

test("a receiver that offers to keep its connection for ten minutes keeps it for some seconds", async () => {
  const sockets = new Set<Socket>();
  const { send } = await scene((response) => {
    if (response.socket) sockets.add(response.socket);
    response.writeHead(200, { Connection: "keep-alive", "Keep-Alive": "timeout=600" }).end();
  });
  for (let n = 0; n < 3; n++) expect(await send()).toEqual({ status: "taken" });
  await until(() => [...sockets].every(({ destroyed }) => destroyed), { timeoutMs: 60_000 });
});
