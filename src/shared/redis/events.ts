/**
 * The events of a parent's agents: numbered lines that the verbs write, readable from a number on for a bounded time, and
 * told on a channel while a subscriber listens. The channel is a hint; a reader that was away reads the lines. Text deltas
 * are live only: their worker publishes them itself.
 */
import { z } from "zod";
import { isoTime } from "../protocol/agent.ts";
import { type AgentAddress, agentOf, type Keys, type ParentAddress } from "../protocol/keys.ts";
import { eventMembers, isBehind, ProgressEvent } from "../protocol/reply.ts";
import { jsonIn } from "../protocol/text.ts";
import type { RedisClient } from "./connection/connection.ts";
import { unlessMistyped } from "./key-types.ts";

/** Publishes one event; never rejects: an event is a hint. */
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

/** A subscriber's wish for events is forgotten this long after it was last said. */
const WATCHING_MS = 10_000;

/** A line: its number, the run, and the events in the spelling of {@link eventMembers}. */
const Line = z.object({ n: z.string(), r: z.int(), e: z.array(z.unknown()) });
/** A line as it is told on the channel; `p`: the number before it in the parent's history, `"0"`: there was none. */
const Told = Line.extend({ p: z.string(), agent_id: z.string(), name: z.string() });
/** A line as it is stored: number, run and events, separated by commas. */
const STORED_LINE = /^(\S+) (\d+) (.*)$/s;

/** A publisher on `redis`; nothing is sent while the connection is down. */
export function eventPublisher(redis: RedisClient, keys: Keys): PublishEvent {
  return (parent, event) => {
    if (redis.status !== "ready") return;
    redis.publish(keys.parent(parent).events, JSON.stringify(event)).catch(() => {});
  };
}

/** Asks the verbs to publish the parent's events for the next ten seconds; a subscriber says it again well before. */
export async function renewWatching(redis: RedisClient, keys: Keys, parent: ParentAddress): Promise<void> {
  await redis.set(keys.parent(parent).watching, "1", "PX", WATCHING_MS);
}

/** What a message of the channel carries: a line, which says what number stood before its own, or an event that is live only. */
export type ChannelMessage =
  | { number: string; previous: string; events: ProgressEvent[] }
  | { number: undefined; events: ProgressEvent[] };

/** The content of a message of the channel; no events for what this version does not know. */
export function parseMessage(message: string): ChannelMessage {
  const json = jsonIn(message);
  const told = Told.safeParse(json);
  if (told.success)
    return { number: told.data.n, previous: told.data.p, events: eventsOf(told.data, told.data) };
  const single = ProgressEvent.safeParse(json);
  return { number: undefined, events: single.success ? [single.data] : [] };
}

/** Timelines of which is remembered how far they were read. */
const MOST_OFFSETS = 1_000;

/** Where a page of the history begins and how far it goes. */
export interface PageRequest {
  /** The number behind which it begins; `"0"`: with the oldest. */
  after: string;
  /** Most numbers that are read. */
  count: number;
  /** The same for all pages of a reader; at most {@link MOST_OFFSETS} are kept in it. */
  offsets?: TimelineOffsets;
}

/**
 * Of each timeline, how many of its lines have been read, those that were read last behind the others: the next page reads on
 * from there instead of all of it. A hint: timelines are cut at their begin, so what is found there is held against the numbers.
 */
export type TimelineOffsets = Map<string, number>;

/** A page of a parent's history. */
export interface EventPage {
  /** The lines that are kept, oldest first. */
  lines: EventLine[];
  /**
   * The last number that was read; undefined where none was. The next page begins behind it: a number may outlive its line, when
   * the timeline has expired, was cut or has gone to make room.
   */
  last: string | undefined;
  /** Whether there may be more behind it. */
  isFull: boolean;
}

/** A page of the lines of a parent's agents. */
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
 * The stored lines of `timeline` from the first to the last of `numbers`, which are its own and without a gap. Reads so many lines
 * from its offset on, and the one in front of them, which shows that they begin there; the whole timeline where they do not.
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

/** The number of the newest line of a parent's agents; `"0"` where there is none. */
export async function newestEventNumber(
  redis: RedisClient,
  keys: Keys,
  parent: ParentAddress,
): Promise<string> {
  const [newest] = await redis.xrevrange(keys.parent(parent).history, "+", "-", "COUNT", 1);
  return newest?.[0] ?? "0";
}

/** Every line about one agent that is kept, oldest first; as long as its record. */
export function readTimeline(redis: RedisClient, keys: Keys, address: AgentAddress): Promise<EventLine[]> {
  return linesOf(redis, keys, address, redis.lrange(keys.agent(address).timeline, 0, -1));
}

/** The lines about one agent, of those that are `stored`; those that this version cannot read are left out. */
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

/** The events of a line, with what all of them share; those that this version does not know are left out. */
function eventsOf(
  { r: run, e: events }: z.infer<typeof Line>,
  { agent_id, name }: { agent_id: string; name: string },
): ProgressEvent[] {
  return events.flatMap(
    (event) => ProgressEvent.safeParse({ v: 1, agent_id, name, run, ...eventMembers(event) }).data ?? [],
  );
}
