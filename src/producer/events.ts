/**
 * Progress events of a parent's agents: live, after a number, or of one agent while its record is kept.
 *
 * 1. A reader gets the lines of its parent's history in order, each once, after its number. If the channel loses a line, the
 *    reader gets it from the history: at the next gap, or when the next line names a previous number that the reader has not
 *    had. Text deltas are live only.
 * 2. The verbs publish while a reader announces that it watches; a reader announces it at each gap, at least every 5 s.
 * 3. While {@link MOST_WAITING} events wait for a reader, no event is added: the reader continues from the history after it
 *    has taken them. So the buffer is limited to them and one page, for any length of history and any slow reader.
 */
import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import { isoTime } from "../shared/protocol/agent.ts";
import { isBehind, type ProgressEvent, STREAM_ID } from "../shared/protocol/reply.ts";
import {
  type ChannelMessage,
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
import { readOptions, Signal } from "./input.ts";
import type { ParentContext } from "./parent-context.ts";
import { createPushIterator, type PushIterator, whenOpened } from "./push-iterator.ts";
import { refuseFutureCursor } from "./stream-id.ts";
import type { Watcher } from "./subscriber.ts";

/** Number of waiting events from which no further event is added for their reader. */
const MOST_WAITING = 1_000;
const PAGE_LINES = 100;

/**
 * An event as a reader gets it. `at`: ISO 8601, Redis' clock. `number`: on the last event of each step; read on after it with
 * `events({ after: number })`. A text delta has neither.
 */
export type NumberedEvent = ProgressEvent & { number?: string; at?: string };

/** The number of an event, or `0`, which is before all events. */
export const EventNumber = z
  .string()
  .regex(new RegExp(`^0$|${STREAM_ID.source}`), "the number of an event, or 0");
const EventsInput = z.strictObject({ signal: Signal, after: EventNumber.optional() });

/** Options of an event reader: `after` a number, `"0"` for all kept events (default: only new ones); `signal` ends it. */
export interface EventOptions {
  signal?: AbortSignal;
  after?: string;
}

/** Iterates over the events of all agents of a parent; see `Parent.events`. */
export function watchParent(
  context: ParentContext,
  options: EventOptions = {},
): AsyncIterableIterator<NumberedEvent> {
  return whenOpened(open(context, options));
}

/** Reads the kept events of one agent's runs; see `Parent.timeline`. */
export function timelineOf(context: ParentContext, agentId: string): Promise<NumberedEvent[]> {
  return withAgent(context, agentId, async ({ read, client: { redis, keys } }, { address }) =>
    (await read(() => readTimeline(redis, keys, address))).flatMap(numbered),
  );
}

async function open(context: ParentContext, options: EventOptions) {
  const { signal, after } = readOptions(EventsInput, options, "events");
  const client = await context.open();
  if (after !== undefined) await refuseFutureCursor(client, after).catch(throwRefusal);
  let [unwatch, forgetStop, isOver] = [() => {}, () => {}, false];
  let reader: HistoryReader | undefined;
  const stream = createPushIterator<NumberedEvent>({
    signal,
    onEmpty: () => reader?.goOn(),
    onEnd() {
      isOver = true;
      reader?.end();
      forgetStop();
      unwatch();
    },
  });
  forgetStop = context.onStop(stream.end);
  // The signal or the parent's stop may have ended it by now.
  if (isOver) return stream;
  // The parent's later calls follow this command on the connection, so "from now on" includes all their events. The run of
  // such a call publishes its first events even if the channel is not subscribed yet.
  const from = watchFrom(client, context, after).catch(() => after);
  reader = new HistoryReader(client, context, stream, from);
  unwatch = client.subscriber.watch(client.keys.parent(context.profile.parent).events, reader.watcher);
  return stream;
}

/** Throws `failure` if it is a refusal. Any other means that Redis does not answer, and a reader waits for it. */
function throwRefusal(failure: unknown): void {
  if (failure instanceof SubagentError && failure.code === "invalid_input") throw failure;
}

/** Announces that the parent's events are watched, and returns the number to read after: `after`, or the newest. */
function watchFrom(
  { read, redis, keys }: ClientResources,
  { profile: { parent } }: ParentContext,
  after?: string,
): Promise<string> {
  return read(async () => {
    const watching = renewWatching(redis, keys, parent);
    const [from] = await Promise.all([after ?? newestEventNumber(redis, keys, parent), watching]);
    return from;
  });
}

/** Pushes lines into a stream: published ones, and from the history those that the channel lost. */
class HistoryReader {
  readonly #client: ClientResources;
  readonly #context: ParentContext;
  readonly #stream: PushIterator<NumberedEvent>;
  readonly #after: Promise<string | undefined>;
  readonly #offsets: TimelineOffsets = new Map();
  /** The last number that was pushed, or skipped because its line is no longer kept. */
  #cursor: string | undefined;
  /** The history may have lines after the cursor: published lines are then read from the history, in order. */
  #isLagging = true;
  #isReading = false;
  /** Lines may have been written since the current page was requested. */
  #hasNewRing = false;
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

  /** The watcher of the parent's events channel. */
  get watcher(): Watcher {
    return {
      onMessage: (message) => this.#hear(message),
      onGap: () => this.#catchUp(),
      onStop: () => this.#stream.end(),
    };
  }

  /** Continues when the stream is empty. Does nothing before the first gap, which begins to read after the subscription. */
  goOn(): void {
    if (this.#isLagging && this.#cursor !== undefined) this.#catchUp();
  }

  /** Stops reading. */
  end(): void {
    this.#hasEnded = true;
  }

  get #hasRoom(): boolean {
    return !this.#hasEnded && this.#stream.waiting < MOST_WAITING;
  }

  /** Whether to push text deltas: not while kept lines wait for room. */
  get #takesDeltas(): boolean {
    return this.#hasRoom && (this.#isReading || !this.#isLagging);
  }

  #hear(message: string): void {
    const told = parsedOnce(message);
    if (told.number === undefined) {
      // The verb that ends a run publishes its `ended` event, with a number.
      for (const event of told.events)
        if (event.type !== "ended" && this.#takesDeltas) this.#stream.push({ ...event });
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
    if (this.#isReading) this.#hasNewRing = true;
    else if (this.#hasRoom) void this.#read();
  }

  /** Reads the history until its end or until there is no room. Never rejects: the next gap retries a failed read. */
  async #read(): Promise<void> {
    this.#isReading = true;
    try {
      do {
        this.#hasNewRing = false;
        this.#isLagging = !(await this.#readOn()) || this.#hasNewRing;
      } while (this.#hasNewRing && this.#hasRoom);
    } catch (problem) {
      this.#client.logger.debug({ problem }, "events could not be read; again soon");
    } finally {
      this.#isReading = false;
    }
  }

  /** Pushes page by page; resolves with true if it reached the end of the history. */
  async #readOn(): Promise<boolean> {
    const { redis, keys, read, eventLineOf } = this.#client;
    const { parent } = this.#context.profile;
    const inLine = eventLineOf(parent.tenant);
    let after = await watchFrom(this.#client, this.#context, this.#cursor ?? (await this.#after));
    this.#cursor = after;
    while (this.#hasRoom) {
      const request = { after, count: PAGE_LINES, offsets: this.#offsets };
      const page = await inLine(() => read(() => readEvents(redis, keys, parent, request)));
      for (const line of page.lines) this.#push(line);
      after = page.last ?? after;
      this.#cursor = after;
      if (!page.isFull) return true;
    }
    return false;
  }
}

let parsedLast: { message: string; told: ChannelMessage } | undefined;

/** Parses a message of the channel once for all readers of a parent, which hear it one after another. */
function parsedOnce(message: string): ChannelMessage {
  if (parsedLast?.message !== message) parsedLast = { message, told: parseMessage(message) };
  return parsedLast.told;
}

function numbered({ number, at, events }: Omit<EventLine, "uid">): NumberedEvent[] {
  return events.map((event, i) => ({ ...event, at, ...(i === events.length - 1 && { number }) }));
}

function timeOf(number: string): string {
  return isoTime(Number.parseInt(number, 10));
}
