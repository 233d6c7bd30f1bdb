/** Streams: many clients, some of which come and go. */
import { createServer } from "node:http";
import { connect } from "node:net";
import express from "express";
import { beforeAll, expect, test } from "vitest";
import { insideOf } from "../../../src/producer/client.ts";
import { createAuth } from "../../../src/service/api/auth.ts";
import { streamEvents } from "../../../src/service/api/event-stream.ts";
import { readEvents, startApi, type TestApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { seeded } from "../../helpers/seeded.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const CLIENTS = 200;
const REPLIES = 12;
/** Events of 64 KB; the sockets of a connection hold some hundred of them at most. */
const MOST_TAKEN = 2_000;

let stage: Stage;
let api: TestApi;

beforeAll(async () => {
  stage = await openStage();
  await stage.startWorker();
  api = await startApi({ client: stage.client() });
});

test("200 clients, a third of which reconnect at random, see every reply once", async () => {
  const path = "/v1/parents/crowd/replies";
  const random = seeded(7);
  const seen = await Promise.all(
    Array.from({ length: CLIENTS }, async (_, i) => {
      const ids: string[] = [];
      let last: string | undefined;
      while (ids.length < REPLIES) {
        // A client that reconnects reads one to four replies at a time.
        const most = i % 3 === 0 ? random.between(1, 4) : REPLIES;
        const headers: Record<string, string> = last === undefined ? {} : { "last-event-id": last };
        let read = 0;
        for await (const { id, data } of readEvents(api.url + path, { headers })) {
          ids.push(data.reply_id);
          last = id;
          read += 1;
          if (read === most || ids.length === REPLIES) break;
        }
      }
      return ids;
    }).concat([makeReplies("crowd")]),
  );
  const expected = seen.pop();
  expect(new Set(expected)).toHaveProperty("size", REPLIES);
  for (const ids of seen) expect(ids).toEqual(expected);
});

/** Makes the replies; resolves to their ids in the order of the channel. */
async function makeReplies(parentId: string): Promise<string[]> {
  const parent = stage.parent(parentId);
  const { agent_id } = await parent.spawn({ name: "busy", keep_alive: true });
  for (let run = 1; run <= REPLIES; run++) {
    await parent.send(agent_id, "Say hello");
    await until(async () => (await parent.get(agent_id)).status === "idle");
  }
  return (await parent.newReplies()).entries.map(({ reply_id }) => reply_id);
}

test("a client that reads nothing has no more taken for it than its socket holds, and is cut off", async () => {
  const clock = handClock();
  const { open } = insideOf(stage.client());
  const limits = { requestsPerMinute: 1, requestsAtOnce: 1 };
  const auth = createAuth({ open, openWithoutKeys: true, tenant: "default", ...limits, clock });
  const data = "x".repeat(1 << 16);
  let taken = 0;
  async function* events() {
    for (; taken < MOST_TAKEN; taken++) yield { event: "big", data };
  }
  const app = express();
  let ended = false;
  app.get("/", (request, response) => {
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const { signal } = gone;
    void streamEvents({ request, response, auth, clock, signal }, events()).then(() => {
      ended = true;
    });
  });
  const { port } = new URL(await listenUntilEnd(createServer(app)));
  const socket = connect(Number(port), "127.0.0.1").pause();
  closeAtEnd(() => void socket.destroy());
  socket.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  // The timer of its patience, beside that of the heartbeat.
  await until(() => clock.pending === 2);
  expect(taken).toBeGreaterThan(0);
  expect(taken).toBeLessThan(MOST_TAKEN / 2);
  clock.advance(10_000);
  await until(() => ended);
  expect(taken).toBeLessThan(MOST_TAKEN / 2);
});
