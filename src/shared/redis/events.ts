/**
 * The events of a parent's agents: numbered lines that the verbs write, readable from any number on for a limited time, and
 * published on a channel while a subscriber listens. The channel is a hint; a reader that was disconnected reads the lines.
 * Text deltas are live only: their worker publishes them itself.
 */
import { z } from "zod";
import { unlessMistyped } from "../errors.ts";
import { isoTime } from "../protocol/agent.ts";
import { type AgentAddress, agentOf, type Keys, type ParentAddress } from "../protocol/keys.ts";
import { eventMembers, isBehind, ProgressEvent } from "../protocol/reply.ts";
import { jsonIn } from "../protocol/text.ts";
import type { RedisClient } from "./connection/connection.ts";

/** Publishes one event; never rejects, because an event is a hint. */
export type PublishEvent = (parent: ParentAddress, event: ProgressEvent) => void;

/** One line of events that a verb wrote in one step. */
export interface EventLine {
  /** Greater than that of every earlier line of the parent. */
  number: string;
  uid: string;
  /** ISO 8601, Redis' clock. */
  at: string;
  events: ProgressEvent[];
}

/** A subscriber's request for events expires this long after its last renewal. */
const WATCHING_MS = 10_000;

/** A line: its number, the run, and the events in the spelling of {@link eventMembers}. */
const Line = z.object({ n: z.string(), r: z.int(), e: z.array(z.unknown()) });
/** A line as it is published on the channel. `p`: the number before it in the parent's history, `"0"`: there was none. */
const Told = Line.extend({ p: z.string(), agent_id: z.string(), name: z.string() });
/** A line as it is stored: number, run and events, separated by commas. */
const STORED_LINE = /^(\S+) (\d+) (.*)$/s;

/** Returns a publisher on `redis`; it sends nothing while the connection is down. */
export function eventPublisher(redis: RedisClient, keys: Keys): PublishEvent {
  return (parent, event) => {
    if (redis.status !== "ready") return;
    redis.publish(keys.parent(parent).events, JSON.stringify(event)).catch(() => {});
  };
}

/** Asks the verbs to publish the parent's events for the next ten seconds; a subscriber renews this well before. */
export async function renewWatching(redis: RedisClient, keys: Keys, parent: ParentAddress): Promise<void> {
  await redis.set(keys.parent(parent).watching, "1", "PX", WATCHING_MS);
}

/** Content of a channel message: a line with the number before its own, or an event that is live only. */
export type ChannelMessage =
  | { number: string; previous: string; events: ProgressEvent[] }
  | { number: undefined; events: ProgressEvent[] };

/** Parses a channel message; returns no events if this version does not know it. */
export function parseMessage(message: string): ChannelMessage {
  const json = jsonIn(message);
  const told = Told.safeParse(json);
  if (told.success)
    return { number: told.data.n, previous: told.data.p, events: eventsOf(told.data, told.data) };
  const single = ProgressEvent.safeParse(json);
  return { number: undefined, events: single.success ? [single.data] : [] };
}

/** Most timelines in a {@link TimelineOffsets}. */
const MOST_OFFSETS = 1_000;

/** Begin and length of a page of the history. */
export interface PageRequest {
  /** The number after which it begins; `"0"`: with the oldest. */
  after: string;
  /** Most numbers to read. */
  count: number;
  /** Shared by all pages of a reader; has at most {@link MOST_OFFSETS} entries. */
  offsets?: TimelineOffsets;
}

/**
 * Timeline → the number of its lines that have been read, the newest use last: the next page continues there and does not
 * read all of it. A hint: timelines are cut at their beginning, so the lines found are compared with the numbers.
 */
export type TimelineOffsets = Map<string, number>;

/** A page of a parent's history. */
export interface EventPage {
  /** The lines that still exist, oldest first. */
  lines: EventLine[];
  /**
   * The last number that was read, or undefined; the next page begins after it. A number may outlive its line, if the
   * timeline has expired, was cut or was deleted to make room.
   */
  last: string | undefined;
  /** True if more may follow. */
  isFull: boolean;
}

/** Reads a page of the lines of a parent's agents. */
export async function readEvents(
  redis: RedisClient,
  keys: Keys,
  parent: ParentAddress,
  { after, count, offsets = new Map<string, number>() }: PageRequest,
): Promise<EventPage> {
  const pointers = await redis.xrange(keys.parent(parent).history, `(${after}`, "+", "COUNT", count);
  const numbersOf = new Map<string, string[]>();
  for (const [number, [, uid = ""]] of pointers) {
    const numbers = numbersOf.get(uid);
    if (numbers) numbers.push(number);
    else numbersOf.set(uid, [number]);
  }
  const parts = await Promise.all(
    [...numbersOf].map(([uid, numbers]) => {
      const address = agentOf(parent, uid);
      const stored = storedLines(redis, keys.agent(address).timeline, numbers, offsets);
      return linesOf(redis, keys, address, unlessMistyped(stored, []));
    }),
  );
  const byNumber = new Map(parts.flat().map((line) => [line.number, line]));
  return {
    lines: pointers.flatMap(([number]) => byNumber.get(number) ?? []),
    last: pointers.at(-1)?.[0],
    isFull: pointers.length === count,
  };
}

/**
 * Reads the stored lines of `timeline` from the first to the last of `numbers`, which are its own and have no gap. Reads
 * that many lines from its offset on, and the line before as a check of the offset; if the check fails, the whole timeline.
 */
async function storedLines(
  redis: RedisClient,
  timeline: string,
  numbers: readonly string[],
  offsets: TimelineOffsets,
): Promise<string[]> {
  const [first = "", last = ""] = [numbers[0], numbers.at(-1)];
  const isBefore = (text: string) => isBehind(lineNumber(text), first);
  const offset = offsets.get(timeline) ?? 0;
  let begin = Math.max(0, offset - 1);
  let stored = await redis.lrange(timeline, begin, offset + numbers.length - 1);
  if (stored.filter(isBefore).length !== offset - begin) {
    begin = 0;
    stored = await redis.lrange(timeline, 0, -1);
  }
  const upToLast = stored.filter((text) => !isBehind(last, lineNumber(text)));
  offsets.delete(timeline);
  offsets.set(timeline, begin + upToLast.length);
  const [oldest] = offsets.keys();
  if (oldest !== undefined && offsets.size > MOST_OFFSETS) offsets.delete(oldest);
  return upToLast.filter((text) => !isBefore(text));
}

function lineNumber(storedLine: string): string {
  return storedLine.slice(0, storedLine.indexOf(" "));
}

/** Reads the number of the newest line of a parent's agents; `"0"` if there is none. */
export async function newestEventNumber(
  redis: RedisClient,
  keys: Keys,
  parent: ParentAddress,
): Promise<string> {
  const [newest] = await redis.xrevrange(keys.parent(parent).history, "+", "-", "COUNT", 1);
  return newest?.[0] ?? "0";
}

/** Reads every kept line about one agent, oldest first; of acked agents a parent keeps the newest timelines. */
export function readTimeline(redis: RedisClient, keys: Keys, address: AgentAddress): Promise<EventLine[]> {
  return linesOf(redis, keys, address, redis.lrange(keys.agent(address).timeline, 0, -1));
}

/** Parses the `stored` lines about one agent; skips those that this version cannot read. */
async function linesOf(
  redis: RedisClient,
  keys: Keys,
  address: AgentAddress,
  stored: Promise<string[]>,
): Promise<EventLine[]> {
  const [lines, [agentId, name]] = await Promise.all([
    stored,
    redis.hmget(keys.agent(address).record, "agent_id", "name"),
  ]);
  const agent = { agent_id: agentId ?? address.uid, name: name ?? "" };
  return lines.flatMap((text) => {
    const [, n, run, events] = STORED_LINE.exec(text) ?? [];
    const line = Line.safeParse({ n, r: Number(run), e: jsonIn(`[${events}]`) }).data;
    if (!line) return [];
    const at = isoTime(Number.parseInt(line.n, 10));
    return [{ number: line.n, uid: address.uid, at, events: eventsOf(line, agent) }];
  });
}

/** Returns the events of a line, each with the members that all share; skips those that this version does not know. */
function eventsOf(
  { r: run, e: events }: z.infer<typeof Line>,
  { agent_id, name }: { agent_id: string; name: string },
): ProgressEvent[] {
  return events.flatMap(
    (event) => ProgressEvent.safeParse({ v: 1, agent_id, name, run, ...eventMembers(event) }).data ?? [],
  );
}
