/**
 * Progress of a parent's agents: as it happens, from a number on, or of one agent as long as its record is kept.
 *
 * 1. A reader sees the lines of its parent's history in their order, each once, from its number on; what the channel lost is
 *    read from the history at the next gap. Text deltas are live only.
 * 2. The verbs publish while a reader says that it watches; a reader says it at each gap, at least every five seconds.
 */
import { isoTime } from "../shared/protocol/agent.ts";
import { isBehind, type ProgressEvent } from "../shared/protocol/reply.ts";
import {
  type EventLine,
  newestEvent,
  parseMessage,
  readEvents,
  readTimeline,
  watchEvents,
} from "../shared/redis/events.ts";
import { withAgent } from "./agents.ts";
import type { ParentContext } from "./context.ts";
import type { OpenClient } from "./open-client.ts";
import { createPushIterator, type PushIterator, whenOpened } from "./push-iterator.ts";

/** Most events that wait to be taken by a reader that follows, and by one that reads from a number on. */
const EVENTS_KEPT = 1_000;
const EVENTS_READ_KEPT = 100_000;
const PAGE_LINES = 100;

/**
 * An event as a reader gets it. `at`: ISO 8601, Redis' clock; `number`: stands on the last event of each step: read on from
 * there with `events({ after: number })`. A text delta has neither.
 */
export type NumberedEvent = ProgressEvent & { number?: string; at?: string };

/** How events are read: `after` a number, `"0"` for all kept events (default: new events only); `signal` ends the reading. */
export interface EventOptions {
  signal?: AbortSignal;
  after?: string;
}

/** Events of all agents of a parent; see `Parent.events`. */
export function watchParent(
  context: ParentContext,
  options: EventOptions = {},
): AsyncIterableIterator<NumberedEvent> {
  return whenOpened(open(context, options));
}

/** What is kept of one agent's runs; see `Parent.timeline`. */
export function timelineOf(context: ParentContext, agentId: string): Promise<NumberedEvent[]> {
  return withAgent(context, agentId, async ({ read, client: { redis, keys } }, { address }) =>
    (await read(() => readTimeline(redis, keys, address))).flatMap(numbered),
  );
}

async function open(context: ParentContext, { signal, after }: EventOptions) {
  const client = await context.open();
  const { parent } = context.profile;
  let [unwatch, forgetStop] = [() => {}, () => {}];
  const stream = createPushIterator<NumberedEvent>({
    signal,
    capacity: after === undefined ? EVENTS_KEPT : EVENTS_READ_KEPT,
    onEnd() {
      forgetStop();
      unwatch();
    },
  });
  forgetStop = context.onStop(stream.end);
  if (signal?.aborted) return stream;
  // A call that the parent makes afterwards is behind this on the connection: "from now on" is what follows it, and a run that
  // it begins tells of its beginning, though the channel is not subscribed yet.
  const from = watchFrom(client, context, after).catch(() => after);
  const reader = historyReader(client, context, stream, from);
  unwatch = client.subscriber.watch(client.keys.parent(parent).events, {
    onMessage: reader.hear,
    onGap: reader.catchUp,
    onStop: stream.end,
  });
  return stream;
}

/** Says that the parent's events are watched, and answers the number to read on from: `after`, or the newest. */
function watchFrom(
  { call, redis, keys }: OpenClient,
  { profile: { parent } }: ParentContext,
  after?: string,
): Promise<string> {
  return call(({ read }) =>
    read(async () => {
      const watching = watchEvents(redis, keys, parent);
      const [from] = await Promise.all([after ?? newestEvent(redis, keys, parent), watching]);
      return from;
    }),
  );
}

/** Pushes lines into `stream`: those that are told, and at a gap those that were missed. */
function historyReader(
  client: OpenClient,
  context: ParentContext,
  stream: PushIterator<NumberedEvent>,
  after: Promise<string | undefined>,
) {
  const { redis, keys, call, logger } = client;
  const { parent } = context.profile;
  let cursor: string | undefined;
  let isReading = false;
  let isAskedAgain = false;

  const push = (line: Omit<EventLine, "uid">) => {
    if (cursor !== undefined && !isBehind(cursor, line.number)) return;
    cursor = line.number;
    for (const event of numbered(line)) stream.push(event);
  };
  const readOn = async () => {
    cursor = await watchFrom(client, context, cursor ?? (await after));
    for (let isFull = true; isFull; ) {
      const from = cursor;
      const lines = await call(({ read }) => read(() => readEvents(redis, keys, parent, from, PAGE_LINES)));
      for (const line of lines) push(line);
      isFull = lines.length === PAGE_LINES;
    }
  };
  const catchUp = async (): Promise<void> => {
    isAskedAgain = isReading;
    if (isReading) return;
    isReading = true;
    await readOn().catch((problem: unknown) =>
      logger.debug({ problem }, "events could not be read; again soon"),
    );
    isReading = false;
    if (isAskedAgain) await catchUp();
  };
  return {
    catchUp: () => void catchUp(),
    hear(message: string) {
      const { number, events } = parseMessage(message);
      if (number === undefined) {
        // The end of a run is told by the verb that ends it.
        for (const event of events) if (event.type !== "ended") stream.push(event);
      } else if (isReading || cursor === undefined) isAskedAgain = true;
      else push({ number, at: timeOf(number), events });
    },
  };
}

function numbered({ number, at, events }: Omit<EventLine, "uid">): NumberedEvent[] {
  return events.map((event, i) => ({ ...event, at, ...(i === events.length - 1 && { number }) }));
}

function timeOf(number: string): string {
  return isoTime(Number.parseInt(number, 10));
}
