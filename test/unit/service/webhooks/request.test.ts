import { createServer, type ServerResponse } from "node:http";
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
async function scene(answer: (response: ServerResponse) => void) {
  const seen = { requests: 0, connections: 0, cut: 0 };
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      seen.requests += 1;
      response.on("close", () => {
        if (!response.writableFinished) seen.cut += 1;
      });
      answer(response);
    });
  });
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
  };
  const clock = handClock();
  const sender = createSender("any", clock);
  closeAtEnd(() => sender.close());
  return { seen, clock, send: () => sender.send(webhook, sampleReply()) };
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
