/**
 * The durable reply channel of a parent: a stream of unacked entries. An entry that this version cannot read is returned as
 * unreadable: it blocks no reader, and stays in the channel for a reader that can.
 */
import { z } from "zod";
import type { Logger } from "../logger.ts";
import { type AgentRecord, isoTime, PAYLOAD_VERSION } from "../protocol/agent.ts";
import { agentOf, type Keys, type ParentAddress, replyIdOf } from "../protocol/keys.ts";
import type { Timing } from "../protocol/limits.ts";
import {
  type ChannelEntry,
  Interim,
  NO_SUMMARY,
  NOTHING_DONE,
  Question,
  Reply,
  ReplyHead,
  RunProgress,
} from "../protocol/reply.ts";
import { jsonIn } from "../protocol/text.ts";
import { pairs } from "./codec.ts";
import type { RedisClient } from "./connection/connection.ts";
import { loadScripts } from "./scripts.ts";

/** One entry and its position in the stream. */
export interface StreamEntry {
  /** Stream id; later entries have greater ones. */
  id: string;
  uid: string;
  entry: ChannelEntry;
}

/** An entry of a newer version, a malformed one, or one of an agent that the reader does not ask for; readers skip it. */
export interface UnreadableEntry {
  id: string;
  uid: string;
  entry: { kind: "unreadable"; reply_id: string };
}

/** An item of the stream. */
export type StreamItem = StreamEntry | UnreadableEntry;

/** Returns true if this version can read an item. */
export function isReadable(item: StreamItem): item is StreamEntry {
  return item.entry.kind !== "unreadable";
}

/** A part of a stream. `isLast`: no item followed it. */
export interface StreamPage {
  items: StreamItem[];
  isLast: boolean;
}

/** A part of a stream with the length of all its fields, UTF-16 code units. */
export interface MeasuredPage extends StreamPage {
  chars: number;
}

/** See the module's header. */
export interface ReplyStream {
  /**
   * Reads up to `count` unacked items after `after` (`"0"` = from the oldest), some to a command, with no further command once
   * they have {@link PAGE_CHARS}: an entry may have a megabyte, and a hundred of those would keep Redis and this process from
   * others. With `uid`, entries of other agents are not parsed, and come as unreadable ones: parsing is most of what one costs.
   */
  page(parent: ParentAddress, after: string, count: number, uid?: string): Promise<MeasuredPage>;
  /** Returns up to `count` unacked items after `after` with one command, however large they are. */
  read(parent: ParentAddress, after: string, count: number): Promise<StreamItem[]>;
  /** Removes an entry; true for the first ack. `token` identifies this ack, so that a repeated one gets the same answer. */
  ack(parent: ParentAddress, entry: StreamItem, token: string): Promise<boolean>;
}

/** Characters of a page after which it ends. */
const PAGE_CHARS = 1_000_000;
/** Items of the first command of a page; each further command asks for twice as many, up to {@link MOST_ITEMS}. */
const FIRST_ITEMS = 4;
const MOST_ITEMS = 16;

/** Number of unreadable entries that are remembered as reported. */
const REPORTED_MAX = 1_000;

/** Returns the reply stream on `redis`; `logger` gets a warning about unreadable entries, once for each. */
export function createReplyStream(
  redis: RedisClient,
  keys: Keys,
  timing: Timing,
  logger?: Logger,
): ReplyStream {
  const scripts = loadScripts(redis, keys, timing);
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
  const decoded = (channel: string, entries: readonly RawEntry[], wanted?: string) => {
    const items = entries.map(([id, flat]) => decode(id, flat, wanted));
    report(channel, wanted === undefined ? items : items.filter(({ uid }) => uid === wanted));
    return items;
  };
  return {
    async page(parent, after, count, wanted) {
      const { replies } = keys.parent(parent);
      const { entries, ...page } = await rawPage(redis, replies, after, count);
      return { items: decoded(replies, entries, wanted), ...page };
    },
    async read(parent, after, count) {
      const { replies } = keys.parent(parent);
      return decoded(replies, await redis.xrange(replies, `(${after}`, "+", "COUNT", count));
    },
    async ack(parent, { id, uid, entry }, token) {
      const { status } = await scripts.run("ack", agentOf(parent, uid), {
        reply_id: entry.reply_id,
        entry_id: id,
        token,
        request_key: requestKeyOf(entry),
      });
      return status === "first";
    },
  };
}

/** An item as Redis has it: its id, and the names and values of its fields. */
type RawEntry = [id: string, flat: string[]];

/** Reads a page with commands that ask for more and more, as long as the entries so far are small. */
async function rawPage(
  redis: RedisClient,
  channel: string,
  after: string,
  count: number,
): Promise<Omit<MeasuredPage, "items"> & { entries: RawEntry[] }> {
  const entries: RawEntry[] = [];
  let [chars, step] = [0, FIRST_ITEMS];
  while (entries.length < count && chars < PAGE_CHARS) {
    const most = Math.min(step, count - entries.length);
    const read = await redis.xrange(channel, `(${entries.at(-1)?.[0] ?? after}`, "+", "COUNT", most);
    entries.push(...read);
    for (const [, flat] of read) for (const text of flat) chars += text.length;
    if (read.length < most) return { entries, chars, isLast: true };
    step = Math.min(step * 2, MOST_ITEMS);
  }
  return { entries, chars, isLast: false };
}

function decode(id: string, flat: string[], wanted?: string): StreamItem {
  const field = Object.fromEntries(pairs(flat));
  const { uid = "", reply_id = "" } = field;
  const isWanted = wanted === undefined || uid === wanted;
  try {
    if (isWanted && !(Number(field.v) > PAYLOAD_VERSION)) return { id, uid, entry: entryOf(field) };
  } catch {}
  return { id, uid, entry: { kind: "unreadable", reply_id } };
}

/** Returns the entry in a message of the doorbell; undefined for a message of another version. */
export function itemOfRing(message: string): StreamItem | undefined {
  const ring = Ring.safeParse(jsonIn(message));
  return ring.success ? decode(...ring.data) : undefined;
}

const Ring = z.tuple([z.string(), z.array(z.string())]);

/** Throws if this version does not understand the fields. */
function entryOf(field: Readonly<Record<string, string>>): ChannelEntry {
  const {
    at,
    run,
    body,
    summary,
    message_ids = "",
    undelivered,
    default_answer,
    answer_by,
    ...names
  } = field;
  const head = Object.assign(names, { run: Number(run), created_at: isoOf(at) });
  if (field.kind === "message") return Interim.parse(Object.assign(head, { text: body }));
  if (field.kind === "question") {
    const asked = { text: body, answer_by: isoOf(answer_by), ...(default_answer && { default_answer }) };
    return Question.parse({ ...head, ...asked });
  }
  const unread: unknown = undelivered && JSON.parse(undelivered);
  const end = Object.assign(
    head,
    { message_ids: wordsOf(message_ids) },
    undelivered && { undelivered: unread },
  );
  if (!body) return { ...structuredClone(NOTHING_DONE), ...ReplyHead.parse(end) };
  const { said: _, ...progress } = RunProgress.parse(JSON.parse(body));
  return { summary: summary ?? NO_SUMMARY, ...progress, ...ReplyHead.parse(end) };
}

/** Returns the request key of the task that an entry ends: the id of its first message, read or not; "" if there is none. */
function requestKeyOf(entry: StreamItem["entry"]): string {
  return "message_ids" in entry ? (entry.message_ids[0] ?? entry.undelivered?.[0] ?? "") : "";
}

/** Returns the ids of a text that separates them by blanks. */
function wordsOf(text: string): string[] {
  return text.split(" ").filter((word) => word !== "");
}

/**
 * Returns the reply of the newest run in an agent's record, as its channel had it, acked or not; undefined before the run's
 * end, and for a record that an earlier version wrote.
 */
export function keptReply(record: AgentRecord): (StreamEntry & { entry: Reply }) | undefined {
  const { uid, reply: kept, progress, parent_id, agent_id, name, run } = record;
  if (!kept) return undefined;
  const { entry_id: id, at, message_ids, undelivered, ...end } = kept;
  const isOfRun = end.reply_id === replyIdOf(uid, run);
  const entry = Reply.parse({
    ...((isOfRun && progress) || NOTHING_DONE),
    ...end,
    ...{ parent_id, agent_id, name, run, created_at: isoOf(at), message_ids: wordsOf(message_ids) },
    ...(undelivered && { undelivered }),
  });
  return { id, uid, entry };
}

function isoOf(epochMs: string | undefined): string {
  return isoTime(Number(epochMs));
}
