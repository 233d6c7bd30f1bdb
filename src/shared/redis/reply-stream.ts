/**
 * The durable reply channel of a parent: a stream of what is not acked yet. What this version cannot read is handed over
 * as {@link UnreadableEntry}: it blocks nobody, and stays in the channel for a reader that can.
 */
import type { Logger } from "../logger.ts";
import { PAYLOAD_VERSION } from "../protocol/agent.ts";
import { ZERO_USAGE } from "../protocol/content.ts";
import type { Keys, ParentAddress } from "../protocol/keys.ts";
import { InboxMessage } from "../protocol/message.ts";
import { ChannelEntry, NO_SUMMARY, type ReplyBody } from "../protocol/reply.ts";
import type { Timing } from "../protocol/timing.ts";
import type { RedisClient } from "./connection.ts";
import { pairs } from "./pairs.ts";
import { loadScripts } from "./scripts.ts";

/** One entry and where it stands in the stream. */
export interface StreamEntry {
  /** Stream id; later entries have greater ones. */
  id: string;
  uid: string;
  entry: ChannelEntry;
}

/** An entry of a newer version, or one that is none: to be passed over. */
export interface UnreadableEntry {
  id: string;
  uid: string;
  entry: { kind: "unreadable"; reply_id: string };
}

/** What stands in the stream. */
export type StreamItem = StreamEntry | UnreadableEntry;

/** Whether this version can read an item. */
export function isReadable(item: StreamItem): item is StreamEntry {
  return item.entry.kind !== "unreadable";
}

/** See the module's header. */
export interface ReplyStream {
  /** Up to `count` unacked items behind `after` (`"0"` = from the oldest). */
  read(parent: ParentAddress, after: string, count: number): Promise<StreamItem[]>;
  /** Removes an entry; true for whoever was first. `token` names this ack, so that a repeated one answers alike. */
  ack(parent: ParentAddress, entry: StreamItem, token: string): Promise<boolean>;
}

/** So many unreadable entries are remembered as reported. */
const REPORTED_MAX = 1_000;

/** The reply stream on `redis`; `logger` hears of what cannot be read, of each entry once. */
export function createReplyStream(
  redis: RedisClient,
  keys: Keys,
  timing: Timing,
  logger?: Logger,
): ReplyStream {
  const scripts = loadScripts(redis);
  const reported = new Set<string>();
  const report = (channel: string, items: readonly StreamItem[]) => {
    const names = items.filter((item) => !isReadable(item)).map(({ id }) => `${channel} ${id}`);
    const unheardOf = names.filter((name) => !reported.has(name));
    if (unheardOf.length === 0) return;
    if (reported.size >= REPORTED_MAX) reported.clear();
    for (const name of unheardOf) reported.add(name);
    logger?.warn(
      { channel, entries: unheardOf.length },
      "Entries of the reply channel cannot be read and stay in it; has a newer version written them?",
    );
  };
  return {
    async read(parent, after, count) {
      const { replies } = keys.parent(parent);
      const entries = await redis.xrange(replies, `(${after}`, "+", "COUNT", count);
      const items = entries.map(([id, flat]) => decode(id, flat));
      report(replies, items);
      return items;
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

function decode(id: string, flat: string[]): StreamItem {
  const field = Object.fromEntries(pairs(flat));
  const { uid = "", reply_id = "" } = field;
  try {
    if (!(Number(field.v) > PAYLOAD_VERSION)) return { id, uid, entry: entryOf(field) };
  } catch {}
  return { id, uid, entry: { kind: "unreadable", reply_id } };
}

/** Throws for fields that this version does not understand. */
function entryOf(field: Readonly<Record<string, string>>): ChannelEntry {
  const { at, run, body, undelivered, default_answer, answer_by, ...names } = field;
  const head = { ...names, run: Number(run), created_at: isoOf(at) };
  if (field.kind === "message") return ChannelEntry.parse({ ...head, text: body });
  if (field.kind === "question") {
    const asked = { text: body, answer_by: isoOf(answer_by), ...(default_answer && { default_answer }) };
    return ChannelEntry.parse({ ...head, ...asked });
  }
  const unread = InboxMessage.array().parse(JSON.parse(undelivered || "[]"));
  return ChannelEntry.parse({
    ...(body ? JSON.parse(body) : NOTHING_DONE),
    ...head,
    ...(unread.length > 0 && { undelivered: unread.map((message) => message.message_id) }),
  });
}

function isoOf(epochMs: string | undefined): string {
  return new Date(Number(epochMs)).toISOString();
}
