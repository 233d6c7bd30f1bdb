/** A parent's channel over HTTP: read at once, by long poll or as a stream; acked by id. All interfaces share the channel. */

import { z } from "zod";
import { refuseFutureCursor } from "../../../producer/stream-id.ts";
import { OLDEST, STREAM_ID } from "../../../shared/protocol/reply.ts";
import { lastEventIdOf, type ServerSentEvent, streamEvents, wantsEvents } from "../event-stream.ts";
import { ackReplies, followReplies, waitForPage } from "../reply-read.ts";
import { type Route, type RouteCall, route } from "../route.ts";
import { Acked, AckInput, pageLimit, ReplyPage, WaitSeconds } from "../schema.ts";

const REPLIES = "/v1/parents/{parent}/replies";
const tag = "replies";

const Cursor = z.string().regex(STREAM_ID, "a cursor of an earlier answer, e.g. 1767000000000-0");
const ReplyQuery = z.strictObject({
  wait: WaitSeconds,
  limit: pageLimit("entries"),
  after: Cursor.default(OLDEST).describe("Only entries after this cursor; default: all unacked entries."),
});

/** The rows of these routes. */
export const replyRoutes: readonly Route[] = [
  route({
    method: "get",
    path: REPLIES,
    id: "readReplies",
    tag,
    says: "The unacked entries, oldest first. With `Accept: text/event-stream` new ones follow; `Last-Event-ID` resumes.",
    scope: "read",
    query: ReplyQuery,
    answers: { 200: { says: "The entries.", schema: ReplyPage, media: "text/event-stream" } },
    handle: (call) => (wantsEvents(call.request) ? follow(call) : readOnce(call)),
  }),
  route({
    method: "post",
    path: `${REPLIES}/ack`,
    id: "ackReplies",
    tag,
    says: "Takes replies out of the channel: no reader sees them again.",
    scope: "spawn",
    body: AckInput,
    answers: { 200: { says: "The outcome of each ack.", schema: Acked } },
    async handle(call) {
      const body = await ackReplies(await call.open(), call.address(), call.body.reply_ids);
      return { status: 200, body };
    },
  }),
];

type ReplyCall = RouteCall<z.output<typeof ReplyQuery>>;

async function readOnce(call: ReplyCall) {
  const { wait, limit: count, after } = call.query;
  const waiting = { count, waitMs: wait * 1_000, signal: call.waiting };
  const client = await openAfter(call, after);
  const { entries, cursor } = await waitForPage(client, call.address(), after, waiting);
  return { status: 200, body: { replies: entries.map(({ entry }) => entry), cursor } };
}

async function follow(call: ReplyCall) {
  const after = lastEventIdOf(call.request) ?? call.query.after;
  const entries = followReplies(await openAfter(call, after), call.address(), after, call.waiting);
  await streamEvents(call, eventsOf(entries));
  return "streamed" as const;
}

/** Opens the client; refuses a cursor in the future. */
async function openAfter(call: ReplyCall, after: string) {
  const client = await call.open();
  await refuseFutureCursor(client, after);
  return client;
}

async function* eventsOf(entries: ReturnType<typeof followReplies>): AsyncGenerator<ServerSentEvent> {
  for await (const { id, entry } of entries) yield { id, event: entry.kind, data: entry };
}
