/**
 * Progress of a parent's agents: as it happens, from a number on, or of one agent as long as its record is kept.
 *
 * 1. A reader sees the lines of its parent's history in their order, each once, from its number on. What the channel lost is
 *    read from the history: at the next gap, or when the next line names a number before it that the reader has not had. Text
 *    deltas are live only.
 * 2. The verbs publish while a reader says that it watches; a reader says it at each gap, at least every five seconds.
 * 3. While {@link MOST_WAITING} events wait for a reader nothing is added for it: it reads on from the history when it has taken
 *    them. So what waits is bounded by them and one page, however long the history is and however slow the reader.
 */
import { z } from "zod";
import { isoTime } from "../shared/protocol/agent.ts";
import { isBehind, type ProgressEvent } from "../shared/protocol/reply.ts";
import {
  type EventLine,
  newestEventNumber,
  parseMessage,
  readEvents,
  readTimeline,
  renewWatching,
  type TimelineOffsets,
} from "../shared/redis/events.ts";
import { withAgent } from "./agents.ts";
import type { ClientResources } from "./client-resources.ts";
import { readInput } from "./input.ts";
import type { ParentContext } from "./parent-context.ts";
import { createPushIterator, type PushIterator, whenOpened } from "./push-iterator.ts";
import type { Watcher } from "./subscriber.ts";

/** Events that wait to be taken before nothing is added for their reader. */
const MOST_WAITING = 1_000;
const PAGE_LINES = 100;

/**
 * An event as a reader gets it. `at`: ISO 8601, Redis' clock; `number`: stands on the last event of each step: read on from
 * there with `events({ after: number })`. A text delta has neither.
 */
export type NumberedEvent = ProgressEvent & { number?: string; at?: string };

/** The number of an event, or `0` in front of them all. */
export const EventNumber = z.string().regex(/^(0|\d{1,16}-\d{1,16})$/, "the number of an event, or 0");
const EventsWish = z.object({ after: EventNumber.optional() });

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

async function open(context: ParentContext, { signal, after: wished }: EventOptions) {
  const { after } = readInput(EventsWish, { after: wished }, "events");
  const client = await context.open();
  let [unwatch, forgetStop] = [() => {}, () => {}];
  let reader: HistoryReader | undefined;
  const stream = createPushIterator<NumberedEvent>({
    signal,
    onEmpty: () => reader?.goOn(),
    onEnd() {
      reader?.end();
      forgetStop();
      unwatch();
    },
  });
  forgetStop = context.onStop(stream.end);
  if (signal?.aborted) return stream;
  // A call that the parent makes afterwards is behind this on the connection: "from now on" is what follows it, and a run that
  // it begins tells of its beginning, though the channel is not subscribed yet.
  const from = watchFrom(client, context, after).catch(() => after);
  reader = new HistoryReader(client, context, stream, from);
  unwatch = client.subscriber.watch(client.keys.parent(context.profile.parent).events, reader.watcher);
  return stream;
}

/** Says that the parent's events are watched, and answers the number to read on from: `after`, or the newest. */
function watchFrom(
  { call, redis, keys }: ClientResources,
  { profile: { parent } }: ParentContext,
  after?: string,
): Promise<string> {
  return call(({ read }) =>
    read(async () => {
      const watching = renewWatching(redis, keys, parent);
      const [from] = await Promise.all([after ?? newestEventNumber(redis, keys, parent), watching]);
      return from;
    }),
  );
}

/** Pushes lines into a stream: those that are told, and from the history those that were not. */
class HistoryReader {
  readonly #client: ClientResources;
  readonly #context: ParentContext;
  readonly #stream: PushIterator<NumberedEvent>;
  readonly #after: Promise<string | undefined>;
  /** The last number that was pushed, or passed because its line is gone. */
  #cursor: string | undefined;
  /** Lines behind the cursor may stand in the history: what is told is read from there, in its turn. */
  #isLagging = true;
  #isReading = false;
  /** Something may have been written since the page under way was asked for. */
  #isAskedAgain = false;
  #hasEnded = false;

  constructor(
    client: ClientResources,
    context: ParentContext,
    stream: PushIterator<NumberedEvent>,
    after: Promise<string | undefined>,
  ) {
    this.#client = client;
    this.#context = context;
    this.#stream = stream;
    this.#after = after;
  }

  /** Of the channel on which lines are told. */
  get watcher(): Watcher {
    return {
      onMessage: (message) => this.#hear(message),
      onGap: () => this.#catchUp(),
      onStop: () => this.#stream.end(),
    };
  }

  /** The reader has taken what waited. The first gap begins the reading: before it, nothing is subscribed. */
  goOn(): void {
    if (this.#isLagging && this.#cursor !== undefined) this.#catchUp();
  }

  /** Reads no further. */
  end(): void {
    this.#hasEnded = true;
  }

  get #hasRoom(): boolean {
    return !this.#hasEnded && this.#stream.waiting < MOST_WAITING;
  }

  /** While kept lines wait for room, text deltas leave it to them. */
  get #takesDeltas(): boolean {
    return this.#hasRoom && (this.#isReading || !this.#isLagging);
  }

  #hear(message: string): void {
    const told = parseMessage(message);
    if (told.number === undefined) {
      // The end of a run is told by the verb that ends it.
      for (const event of told.events)
        if (event.type !== "ended" && this.#takesDeltas) this.#stream.push(event);
    } else if (this.#isLagging || !this.#hasRoom || this.#hasMissed(told.previous)) this.#catchUp();
    else this.#push({ number: told.number, at: timeOf(told.number), events: told.events });
  }

  #hasMissed(number: string): boolean {
    return this.#cursor !== undefined && isBehind(this.#cursor, number);
  }

  #push(line: Omit<EventLine, "uid">): void {
    if (this.#cursor !== undefined && !isBehind(this.#cursor, line.number)) return;
    this.#cursor = line.number;
    for (const event of numbered(line)) this.#stream.push(event);
  }

  #catchUp(): void {
    this.#isLagging = true;
    if (this.#isReading) this.#isAskedAgain = true;
    else if (this.#hasRoom) void this.#read();
  }

  /** Reads on until nothing is left or there is no room. Does not reject: what fails is read at the next gap. */
  async #read(): Promise<void> {
    this.#isReading = true;
    try {
      do {
        this.#isAskedAgain = false;
        this.#isLagging = !(await this.#readOn()) || this.#isAskedAgain;
      } while (this.#isAskedAgain && this.#hasRoom);
    } catch (problem) {
      this.#client.logger.debug({ problem }, "events could not be read; again soon");
    } finally {
      this.#isReading = false;
    }
  }

  /** Pushes page by page; resolves to whether it came to the end of the history. */
  async #readOn(): Promise<boolean> {
    const { redis, keys, call } = this.#client;
    const { parent } = this.#context.profile;
    let after = await watchFrom(this.#client, this.#context, this.#cursor ?? (await this.#after));
    this.#cursor = after;
    const offsets: TimelineOffsets = new Map();
    while (this.#hasRoom) {
      const request = { after, count: PAGE_LINES, offsets };
      const page = await call(({ read }) => read(() => readEvents(redis, keys, parent, request)));
      for (const line of page.lines) this.#push(line);
      after = page.last ?? after;
      this.#cursor = after;
      if (!page.isFull) return true;
    }
    return false;
  }
}

function numbered({ number, at, events }: Omit<EventLine, "uid">): NumberedEvent[] {
  return events.map((event, i) => ({ ...event, at, ...(i === events.length - 1 && { number }) }));
}

function timeOf(number: string): string {
  return isoTime(Number.parseInt(number, 10));
}
