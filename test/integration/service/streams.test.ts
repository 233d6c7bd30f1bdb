/** Streams: many clients, some of which come and go. */
import { createServer } from "node:http";
import { connect } from "node:net";
import express, { type RequestHandler, type Response } from "express";
import { beforeAll, expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { createAuth } from "../../../src/service/api/auth.ts";
import { type ServerSentEvent, streamEvents } from "../../../src/service/api/event-stream.ts";
import type { Auth } from "../../../src/service/api/mount.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { whenAborted } from "../../../src/shared/stop-signal.ts";
import { readEvents, startApi, type TestApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { type HandClock, handClock } from "../../helpers/hand-clock.ts";
import { latch } from "../../helpers/latch.ts";
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

test("a client of events that comes back with the last id it had, as a browser does, goes on behind that event", async () => {
  for (const name of ["first", "second"]) await stage.parent("watched").task({ name, prompt: "Say hello" });
  const path = `${api.url}/v1/parents/watched/events?after=0`;
  const all: { id: string | undefined; event: string }[] = [];
  for await (const { id, event } of readEvents(path)) {
    all.push({ id, event });
    if (all.filter((each) => each.event === "RUN_FINISHED").length === 2) break;
  }
  const expected = all.flatMap(({ id }, i) => (id === undefined ? [] : [[id, all[i + 1]?.event]]));
  expect(expected.length).toBeGreaterThan(1);
  const seen: unknown[] = [[all.at(-1)?.id, undefined]];
  for (const [last = ""] of expected.slice(0, -1))
    for await (const { event } of readEvents(path, { headers: { "last-event-id": last } })) {
      seen.splice(-1, 0, [last, event]);
      break;
    }
  expect(seen).toEqual(expected);
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

test.for(["x", "1-2-3", "1-2x", "1767000000000000-0"])(
  "a client of replies that comes back with the id %j, which is of no event, is told so",
  async (id) => {
    const headers = { accept: "text/event-stream", "last-event-id": id };
    const { status, body } = await api.ask("GET", "/v1/parents/crowd/replies", { headers });
    expect(body).toMatchObject({ code: "invalid_input", detail: expect.stringMatching(/^Last-Event-ID/) });
    expect(status).toBe(400);
  },
);

test("a client that reads nothing has no more taken for it than its socket holds, and is cut off", async () => {
  const clock = handClock();
  const { open } = internalsOf(stage.client());
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

test.each(["events", "replies"])(
  "a HEAD for the stream of %s has its head, and does not wait for its end",
  async (what) => {
    const headers = { accept: "text/event-stream" };
    const url = `${api.url}/v1/parents/planner-7/${what}`;
    const answer = await fetch(url, { method: "HEAD", headers, signal: AbortSignal.timeout(5_000) });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toContain("text/event-stream");
  },
);

/** Time between two heartbeats of a stream. */
const HEARTBEAT_MS = 15_000;
/** Less than what a connection queues before it asks its writer to wait. */
const SMALL = "x".repeat(1 << 13);

interface Keyed {
  readonly url: string;
  readonly token: string;
  readonly clock: HandClock;
  revoke(): Promise<unknown>;
}

/** What `open` answers with, behind a key, by a clock that stands still. */
async function behindKey(
  open: (auth: Auth, clock: HandClock, stage: Stage) => RequestHandler,
): Promise<Keyed> {
  const keyed = await openStage();
  const clock = handClock();
  const limits = { requestsPerMinute: 100, requestsAtOnce: 10 };
  const inside = internalsOf(keyed.client());
  const auth = createAuth({
    open: inside.open,
    openWithoutKeys: false,
    tenant: "default",
    ...limits,
    clock,
  });
  const keys = createApiKeys(keyed.redis, keyed.keys);
  const { token, key_id } = await keys.create({ tenant: "acme", name: "stream", scope: "spawn" });
  const app = express();
  app.use(auth.require("spawn"), open(auth, clock, keyed));
  return { url: await listenUntilEnd(createServer(app)), token, clock, revoke: () => keys.revoke(key_id) };
}

/** What a client reads of a stream; `ended` resolves at its end. */
async function follow(url: string, { token }: Keyed, request: RequestInit = {}) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const { body } = await fetch(url, { headers, ...request });
  if (!body) throw new Error("no body");
  const seen = { text: "" };
  const read = async () => {
    for await (const chunk of body.pipeThrough(new TextDecoderStream())) seen.text += chunk;
  };
  return { seen, ended: read() };
}

/** Answers a request with the events of `source`; a failure of the answer is told to `failed`. */
function streaming(
  auth: Auth,
  clock: HandClock,
  source: (response: Response, signal: AbortSignal) => AsyncGenerator<ServerSentEvent>,
  { ended, failed }: { ended?: () => void; failed?: (error: unknown) => void } = {},
): RequestHandler {
  return (request, response) => {
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    if (failed) response.on("error", failed);
    const { signal } = gone;
    void streamEvents({ request, response, auth, clock, signal }, source(response, signal)).then(ended);
  };
}

test("a stream ends at the heartbeat behind the revocation of its key, and at none before", async () => {
  const stream = await behindKey((auth, clock) =>
    streaming(auth, clock, async function* (_response, signal) {
      yield { event: "first", data: 1 };
      await whenAborted(signal);
    }),
  );
  const { seen, ended } = await follow(stream.url, stream);
  await until(() => seen.text.includes("event: first"));
  for (const beats of [1, 2]) {
    stream.clock.advance(HEARTBEAT_MS);
    await until(() => seen.text.split(": heartbeat").length === 1 + beats);
  }
  await stream.revoke();
  stream.clock.advance(HEARTBEAT_MS);
  await ended;
});

test("a run that is streamed over the Agent Protocol tells nothing more once its key is revoked", async () => {
  const stream = await behindKey((auth, clock, keyed) => {
    const parts = { client: keyed.client(), auth, clock, logger: undefined, webhookReach: "public" } as const;
    return agentProtocol().handler(parts);
  });
  const input = { messages: [{ role: "user", content: "Say hello" }] };
  const body = JSON.stringify({ assistant_id: "researcher", input });
  const { seen, ended } = await follow(`${stream.url}/runs/stream`, stream, { method: "POST", body });
  await until(() => seen.text.includes("event: metadata"));
  stream.clock.advance(HEARTBEAT_MS);
  await until(() => seen.text.includes(": heartbeat"));
  await stream.revoke();
  stream.clock.advance(HEARTBEAT_MS);
  await ended;
  expect(seen.text.match(/^event: .*/gm)).toEqual(["event: metadata"]);
});

test.for(["an event", "a heartbeat"])(
  "a client that reads nothing when its key is revoked is cut off, and %s that follows is written to no stream that has ended",
  async (what) => {
    const [full, more, checked, over] = [latch<Response>(), latch(), latch(), latch()];
    const failures: unknown[] = [];
    const { url, token, clock, revoke } = await behindKey((auth, clock) => {
      // The key's check takes as long as the test says.
      const isStillValid: Auth["isStillValid"] = async (request) => {
        await checked.opened;
        return auth.isStillValid(request);
      };
      const source = async function* (response: Response, signal: AbortSignal) {
        while (!(await isFull(response))) yield { event: "small", data: SMALL };
        full.open(response);
        await Promise.race([more.opened, whenAborted(signal)]);
        yield { event: "small", data: SMALL };
        await whenAborted(signal);
      };
      const told = { ended: over.open, failed: (error: unknown) => failures.push(error) };
      return streaming({ ...auth, isStillValid }, clock, source, told);
    });
    const socket = connect(Number(new URL(url).port), "127.0.0.1").pause();
    closeAtEnd(() => void socket.destroy());
    socket.write(`GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`);
    const response = await full.opened;
    // Nothing waits for the client, though it has not taken all.
    expect([response.writableLength > 0, response.writableNeedDrain]).toEqual([true, false]);
    await revoke();
    clock.advance(HEARTBEAT_MS);
    clock.advance(9_000);
    checked.open();
    await until(() => response.writableEnded);
    if (what === "an event") more.open();
    else clock.advance(6_000);
    for (let turn = 0; turn < 10; turn++) await nextTurn();
    expect(failures).toEqual([]);
    expect(response.destroyed).toBe(false);
    clock.advance(10_000);
    await over.opened;
    expect([response.destroyed, clock.pending]).toEqual([true, 0]);
    expect(failures).toEqual([]);
  },
);

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** Whether the sockets of the connection take nothing more: something waits, and goes on waiting. */
async function isFull(response: Response): Promise<boolean> {
  for (let turn = 0; turn < 50; turn++) {
    if (response.writableLength === 0) return false;
    await nextTurn();
  }
  return true;
}
