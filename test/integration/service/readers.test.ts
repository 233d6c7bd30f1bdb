/** Readers of a channel: they miss nothing behind a full page, and a slow one that reads on is kept. */
import { createServer } from "node:http";
import { connect } from "node:net";
import express from "express";
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { createAuth } from "../../../src/service/api/auth.ts";
import { streamEvents } from "../../../src/service/api/event-stream.ts";
import { readEvents, startApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { latch } from "../../helpers/latch.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const REPLIES = "/v1/parents/planner-7/replies";
/** More than two full pages of a reader. */
const ENTRIES = 250;
/** Events of 64 KB, more than the sockets of a connection hold. */
const MANY = 300;

/** A channel of many entries, and a door to it in whose time no slow tick comes. */
async function fullChannel() {
  const stage = await openStage();
  const api = await startApi({ client: stage.client({ clock: handClock() }) });
  const [parent, worker] = [stage.parent(), stage.scriptedWorker()];
  const { agent_id } = await parent.spawn({ name: "writer" });
  await parent.send(agent_id, "go");
  await worker.run(agent_id);
  const uid = await worker.uidOf(agent_id);
  const { replies } = stage.keys.parent({ tenant: "default", parentId: "planner-7" });
  const [[, fields] = ["", []]] = await stage.redis.xrange(replies, "-", "+");
  const adding = stage.redis.pipeline();
  for (let n = 1; n < ENTRIES; n++)
    adding.xadd(replies, "*", ...fields.map((field) => field.replaceAll(uid, `sa-copy-${n}`)));
  await adding.exec();
  return api;
}

test("a reader that follows gets all that is there at once, however many pages that are", async () => {
  const api = await fullChannel();
  const seen = new Set<string>();
  const signal = AbortSignal.timeout(60_000);
  for await (const { id = "" } of readEvents(api.url + REPLIES, { signal }))
    if (seen.add(id).size === ENTRIES) break;
  expect(seen.size).toBe(ENTRIES);
});

test("a reader of pages gets as many entries as it asks for, and each once", async () => {
  const api = await fullChannel();
  const seen: string[] = [];
  let after = "0-0";
  for (let page = 0; page < 4; page++) {
    const { replies, cursor } = (await api.ask("GET", `${REPLIES}?limit=60&after=${after}`)).body;
    expect(replies).toHaveLength(60);
    seen.push(...replies.map(({ reply_id }: { reply_id: string }) => reply_id));
    after = cursor;
  }
  expect((await api.ask("GET", `${REPLIES}?after=${after}`)).body.replies).toHaveLength(ENTRIES - 240);
  expect(new Set(seen).size).toBe(240);
});

test("a client that was slow and reads on is not cut off for it later, and no proxy keeps its events back", async () => {
  const stage = await openStage();
  const clock = handClock();
  const { open } = internalsOf(stage.client());
  const limits = { requestsPerMinute: 1, requestsAtOnce: 1 };
  const auth = createAuth({ open, openWithoutKeys: true, tenant: "default", ...limits, clock });
  const [readOn, isPatient] = [latch(), latch()];
  async function* events() {
    const data = "x".repeat(1 << 16);
    for (let n = 0; n < MANY; n++) yield { event: "big", data };
    readOn.open();
    await isPatient.opened;
    yield { event: "last", data: "" };
  }
  const app = express();
  app.get("/", (request, response) => {
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    void streamEvents({ request, response, auth, clock, signal: gone.signal }, events());
  });
  const { port } = new URL(await listenUntilEnd(createServer(app)));
  const socket = connect(Number(port), "127.0.0.1").pause();
  closeAtEnd(() => void socket.destroy());
  let [head, tail] = ["", ""];
  socket.on("data", (bytes: Buffer) => {
    const text = bytes.toString("latin1");
    if (head.length < 1_000) head += text.slice(0, 1_000);
    tail = (tail + text).slice(-1_000);
  });
  socket.pause();
  socket.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  // The timer of its patience, beside that of the heartbeat.
  await until(() => clock.pending === 2);
  socket.resume();
  await readOn.opened;
  clock.advance(10_000);
  isPatient.open();
  await until(() => tail.includes("event: last") || socket.destroyed);
  expect(tail).toContain("event: last");
  expect(head.toLowerCase()).toContain("x-accel-buffering: no");
});
