/** Guarantee: however many streams there are, and however much they write, the process does other work in between. */
import { createServer } from "node:http";
import express from "express";
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { createAuth } from "../../../src/service/api/auth.ts";
import { streamEvents } from "../../../src/service/api/event-stream.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { openStage } from "../../stage/stage.ts";

const STREAMS = 60;
const EVENTS = 100;

test(`${STREAMS} streams with much to write write a hundred events in a round of the event loop, and lose none`, async () => {
  const clock = handClock();
  const { open } = internalsOf((await openStage()).client());
  const limits = { requestsPerMinute: 1, requestsAtOnce: 1 };
  const auth = createAuth({ open, openWithoutKeys: true, tenant: "default", ...limits, clock });
  let written = 0;
  async function* events() {
    for (let n = 0; n < EVENTS; n++) {
      yield { event: "small", data: n };
      // The stream asks for the next event when it has written this one.
      written += 1;
    }
  }
  const all: (() => void)[] = [];
  const app = express();
  app.get("/", (request, response) => {
    const { signal } = new AbortController();
    all.push(() => void streamEvents({ request, response, auth, clock, signal }, events()));
  });
  const url = await listenUntilEnd(createServer(app));
  const texts = Array.from({ length: STREAMS }, async () => (await fetch(url)).text());
  const nextRound = () => new Promise((resolve) => setImmediate(resolve));
  while (all.length < STREAMS) await nextRound();
  for (const begin of all) begin();
  let most = 0;
  while (written < STREAMS * EVENTS) {
    const before = written;
    await nextRound();
    most = Math.max(most, written - before);
  }
  // A count may fall between the turns of two rounds.
  expect(most).toBeLessThanOrEqual(200);
  const expected = Array.from({ length: EVENTS }, (_, n) => `event: small\ndata: ${n}\n\n`).join("");
  for (const text of await Promise.all(texts)) expect(text).toBe(`: connected\n\n${expected}`);
});
