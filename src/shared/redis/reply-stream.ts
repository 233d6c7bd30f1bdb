/** The durable reply channel of a parent: a stream of what is not acked yet. */
import { ZERO_USAGE } from "../protocol/content.ts";
import type { Keys, ParentAddress } from "../protocol/keys.ts";
import { InboxMessage } from "../protocol/message.ts";
import { ChannelEntry, NO_SUMMARY, type ReplyBody } from "../protocol/reply.ts";
import type { Timing } from "../protocol/timing.ts";
import type { RedisClient } from "./connection.ts";
import { loadScripts } from "./scripts.ts";

/** One entry and where it stands in the stream. */
export interface StreamEntry {
  /** Stream id; later entries have greater ones. */
  id: string;
  uid: string;
  entry: ChannelEntry;
}

/** See the module's sentence. */
export interface ReplyStream {
  /** Up to `count` unacked entries behind `after` (`"0"` = from the oldest). */
  read(parent: ParentAddress, after: string, count: number): Promise<StreamEntry[]>;
  /** Removes an entry; true for whoever was first. `token` names this ack, so that a repeated one answers alike. */
  ack(parent: ParentAddress, entry: StreamEntry, token: string): Promise<boolean>;
}

/** The reply stream on `redis`. */
export function createReplyStream(redis: RedisClient, keys: Keys, timing: Timing): ReplyStream {
  const scripts = loadScripts(redis);
  return {
    async read(parent, after, count) {
      const entries = await redis.xrange(keys.parent(parent).replies, `(${after}`, "+", "COUNT", count);
      return entries.map(([id, flat]) => decode(id, flat));
    },
    async ack(parent, { id, uid, entry }, token) {
      const { replies, ack, text } = keys.parent(parent);
      const { record, steps } = keys.agent({ ...parent, uid });
      const { status } = await scripts.run(
        "ack",
        { replies, ack: ack(entry.reply_id), record, text: text(entry.reply_id), steps },
        { entry_id: id, token, ack_ttl_ms: timing.requestTtlMs, kept_ms: timing.keptAfterAckMs },
      );
      return status === "first";
    },
  };
}

/** Counters of an agent that ended before its run committed anything. */
const NOTHING_DONE: ReplyBody = {
  summary: NO_SUMMARY,
  truncated: false,
  turns: 0,
  tokens: 0,
  usage: ZERO_USAGE,
  cost_usd: 0,
  tools_called: {},
  alerts: [],
  duration_ms: 0,
  model: "",
};

function decode(id: string, flat: string[]): StreamEntry {
  const field: Record<string, string> = {};
  for (let i = 0; i + 1 < flat.length; i += 2) field[flat[i] ?? ""] = flat[i + 1] ?? "";
  const { uid = "", at, run, body, undelivered, ...names } = field;
  const head = { ...names, run: Number(run), created_at: new Date(Number(at)).toISOString() };
  if (field.kind === "message") return { id, uid, entry: ChannelEntry.parse({ ...head, text: body }) };
  const unread = InboxMessage.array().parse(JSON.parse(undelivered || "[]"));
  const entry = ChannelEntry.parse({
    ...(body ? JSON.parse(body) : NOTHING_DONE),
    ...head,
    ...(unread.length > 0 && { undelivered: unread.map((message) => message.message_id) }),
  });
  return { id, uid, entry };
}
