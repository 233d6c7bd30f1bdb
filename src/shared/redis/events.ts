/**
 * The events of a parent's agents: numbered lines that the verbs write, readable from a number on for a bounded time, and
 * told on a channel while a subscriber listens. The channel is a hint; a reader that was away reads the lines. Text deltas
 * are live only: their worker publishes them itself.
 */
import { z } from "zod";
import { isoTime, readKept } from "../protocol/agent.ts";
import { type AgentAddress, agentOf, type Keys, type ParentAddress } from "../protocol/keys.ts";
import { eventMembers, ProgressEvent } from "../protocol/reply.ts";
import { jsonIn } from "../protocol/text.ts";
import type { RedisClient } from "./connection/connection.ts";

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
/** A line as it is told on the channel. */
const Told = Line.extend({ agent_id: z.string(), name: z.string() });
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
export async function watchEvents(redis: RedisClient, keys: Keys, parent: ParentAddress): Promise<void> {
  await redis.set(keys.parent(parent).watching, "1", "PX", WATCHING_MS);
}

/** What a message of the channel carries: a line, or, without a number, an event that is live only; no events for what this version does not know. */
export function parseMessage(message: string): Pick<EventLine, "events"> & { number: string | undefined } {
  const json = jsonIn(message);
  const told = Told.safeParse(json);
  if (told.success) return { number: told.data.n, events: eventsOf(told.data, told.data) };
  const single = ProgressEvent.safeParse(json);
  return { number: undefined, events: single.success ? [single.data] : [] };
}

/** Up to `count` lines of a parent's agents behind the number `after` (`"0"`: from the oldest), oldest first. */
export async function readEvents(
  redis: RedisClient,
  keys: Keys,
  parent: ParentAddress,
  after: string,
  count: number,
): Promise<EventLine[]> {
  const numbers = await redis.xrange(keys.parent(parent).history, `(${after}`, "+", "COUNT", count);
  const uids = [...new Set(numbers.map(([, [, uid = ""]]) => uid))];
  const timelines = await Promise.all(uids.map((uid) => readTimeline(redis, keys, agentOf(parent, uid))));
  const byNumber = new Map(timelines.flat().map((line) => [line.number, line]));
  return numbers.flatMap(([number]) => byNumber.get(number) ?? []);
}

/** The number of the newest line of a parent's agents; `"0"` where there is none. */
export async function newestEvent(redis: RedisClient, keys: Keys, parent: ParentAddress): Promise<string> {
  const [newest] = await redis.xrevrange(keys.parent(parent).history, "+", "-", "COUNT", 1);
  return newest?.[0] ?? "0";
}

/** Every line about one agent that is kept, oldest first; as long as its record. */
export async function readTimeline(
  redis: RedisClient,
  keys: Keys,
  address: AgentAddress,
): Promise<EventLine[]> {
  const { record, timeline } = keys.agent(address);
  const [lines, [agentId, name, kept]] = await Promise.all([
    redis.lrange(timeline, 0, -1),
    redis.hmget(record, "agent_id", "name", "kept"),
  ]);
  const agent = {
    agent_id: agentId ?? address.uid,
    name: name ?? "",
    ...(kept && readKept(address.uid, kept)),
  };
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
