/**
 * The reply channels of a client's parents: one subscriber, any number of readers and waiters, and for each channel one feed
 * that reads the parent's stream for all of them.
 *
 * Owns: the open channels, when each is read, and that a stream has one read at a time. Its neighbours: `parent-channel.ts`
 * holds the readers and waiters, `subscriber.ts` receives the doorbells, the stream in Redis holds every unacked entry.
 *
 * 1. A doorbell message ("ring") carries its entry, so a waiter for that entry need not read the stream. A ring may be lost:
 *    the stream is also read after each other ring, each gap of the subscription and each slow tick. A ring may come after
 *    the ack: a waiter takes its entry only if it was unacked when the wait began, or if the wait is `even_if_acked`.
 * 2. The doorbell is subscribed before the read that counts, so no ring is lost between the two. A wait for a new agent reads
 *    nothing by itself if no ring and no gap came since its reservation.
 * 3. A waiter never waits for a reply that another reader has acked: each gap checks whether the waiter's run is over. If
 *    another reader acks the reply during the wait, the waiter gets it from the agent's record.
 * 4. A listener is offered every unacked entry after its cursor that this version can read, oldest first, each once.
 * 5. A read requested during another read starts after it: it sees every entry written before the request.
 * 6. A failed read moves no cursor; the next read starts at the same one.
 * 7. Reads and checks of a slow tick, and all checks after a gap, wait in a line of their own, so that most slots of the
 *    client's calls stay free for callers, however many waits there are.
 * 8. An unused channel is closed at the next slow tick, so tasks one after the other subscribe once and read no stream.
 */

import { messageOf, SubagentError } from "../../shared/errors.ts";
import { createLine, onceInLine, type RunInLine } from "../../shared/event-loop.ts";
import type { Logger } from "../../shared/logger.ts";
import type { AgentRecord } from "../../shared/protocol/agent.ts";
import { newRequestKey } from "../../shared/protocol/ids.ts";
import { agentOf, type ParentAddress, replyIdOf } from "../../shared/protocol/keys.ts";
import { isBehind, OLDEST } from "../../shared/protocol/reply.ts";
import type { RunState } from "../../shared/redis/agent-store.ts";
import type { Installation } from "../../shared/redis/installation.ts";
import {
  isReadable,
  itemOfRing,
  keptReply,
  type StreamEntry,
  type StreamItem,
  type StreamPage,
} from "../../shared/redis/replies.ts";
import type { PushIterator } from "../push-iterator.ts";
import type { RedisCalls } from "../redis-call.ts";
import type { Subscriber } from "../subscriber.ts";
import {
  type AckEntry,
  cursorAt,
  type Listener,
  type ReaderOptions,
  type ReceivedEntry,
  type ReplyChannel,
  type ReplyFeed,
  type Reservation,
  received,
  replyChannel,
  type TakeQuestion,
  type Waiter,
} from "./parent-channel.ts";

/** See the module's header. */
export interface ReplyChannels {
  /** Iterates over every unacked entry of a parent, oldest first, then over new ones, until the client stops. */
  read(parent: ParentAddress, options: ReaderOptions): PushIterator<ReceivedEntry>;
  /** Iterates over the present unacked entries of a parent, oldest first, until the signal aborts. */
  readPresent(parent: ParentAddress, signal: AbortSignal | undefined): AsyncGenerator<ReceivedEntry>;
  /** Reserves the final reply of an agent for the caller, who releases it; with `takeQuestion` also its questions. */
  reserve(parent: ParentAddress, uid: string, takeQuestion?: TakeQuestion): Reservation;
  /** Iterates over the present unacked entries of a parent, oldest first, except those reserved for a waiter of this client. */
  unacked(parent: ParentAddress, part?: ChannelPart): AsyncIterable<StreamEntry>;
  /** Returns an entry in the form that a reader gets. */
  received(parent: ParentAddress, entry: StreamEntry): ReceivedEntry;
  /**
   * Acks an entry that a caller receives. Never rejects. False: the ack failed, and the channel's readers will see the entry
   * again.
   */
  tryAck(parent: ParentAddress, entry: StreamEntry): Promise<boolean>;
  /** Ends all readers; waiters reject with `closed`, present and later ones. Idempotent. */
  stop(): void;
}

/**
 * A part of a channel: after the id `after` (exclusive), up to the id `upTo` (inclusive), of the agent `uid`; default: all of it, of
 * all agents.
 */
export interface ChannelPart {
  after?: string;
  upTo?: string | undefined;
  uid?: string | undefined;
}

/** Dependencies of the channels. */
export interface ChannelsParts extends Pick<Installation, "store" | "replies" | "keys">, RedisCalls {
  subscriber: Subscriber;
  logger: Logger;
}

/** Reads and checks after gaps that are under way at a time: a quarter of the slots of a client's calls. */
const CHECKS_AT_ONCE = 64;
/** Maximum entries of one read. */
export const PAGE_ENTRIES = 100;
const LAST_OF_A_MS = "18446744073709551615";

const STOPPED = "This client was stopped while it waited; the reply stays in the channel.";

/** Creates the channels over one client's connections. */
export function createReplyChannels(parts: ChannelsParts): ReplyChannels {
  const { keys, logger } = parts;
  const channels = new Map<string, ReplyChannel>();
  const checkLine = createLine(CHECKS_AT_ONCE);
  let stopped: SubagentError | undefined;

  const channelOf = (parent: ParentAddress): ReplyChannel => {
    const { doorbell } = keys.parent(parent);
    const open =
      channels.get(doorbell) ??
      openChannel({ ...parts, checkLine }, parent, () => void channels.delete(doorbell));
    // A call that was running at the stop may open its channel only now.
    if (stopped) open.stop(stopped);
    else channels.set(doorbell, open);
    return open;
  };
  const unacked = (parent: ParentAddress, part?: ChannelPart) =>
    readUnacked(
      parts,
      { parent, ...part },
      (entry) => channels.get(keys.parent(parent).doorbell)?.isReserved(entry) ?? false,
    );
  return {
    unacked,
    async *readPresent(parent, signal) {
      for await (const entry of unacked(parent)) {
        if (signal?.aborted) return;
        yield received(entry, ackerOf(parts, parent));
      }
    },
    tryAck: (parent, entry) =>
      ackerOf(parts, parent)(entry, newRequestKey()).then(
        () => true,
        (error: unknown) => {
          const { reply_id } = entry.entry;
          logger.warn({ reply_id, problem: messageOf(error) }, "a reply was not acked");
          return false;
        },
      ),
    received: (parent, entry) => received(entry, ackerOf(parts, parent)),
    read: (parent, options) => channelOf(parent).read(options),
    reserve: (parent, uid, takeQuestion) => channelOf(parent).reserve(uid, takeQuestion),
    stop() {
      stopped ??= new SubagentError("closed", STOPPED);
      for (const channel of [...channels.values()]) channel.stop(stopped);
      channels.clear();
    },
  };
}

function ackerOf(
  { call, replies }: Pick<ChannelsParts, "call" | "replies">,
  parent: ParentAddress,
): AckEntry {
  return (entry, token) =>
    call(({ write }) =>
      write({ what: "the ack", key: { reply_id: entry.entry.reply_id } }, () =>
        replies.ack(parent, entry, token),
      ),
    );
}

async function* readUnacked(
  { read, replies }: ChannelsParts,
  { parent, after: from = OLDEST, upTo, uid }: ChannelPart & { parent: ParentAddress },
  isReserved: (entry: StreamEntry) => boolean,
): AsyncGenerator<StreamEntry> {
  for (let after = from; ; ) {
    const { items, isLast } = await read(() => replies.page(parent, after, PAGE_ENTRIES, uid));
    for (const entry of items) {
      if (upTo !== undefined && isBehind(upTo, entry.id)) return;
      if (isReadable(entry) && !isReserved(entry)) yield entry;
    }
    const last = items.at(-1);
    if (!last || isLast) return;
    after = last.id;
  }
}

function openChannel(
  { checkLine, subscriber, ...parts }: ChannelsParts & { checkLine: RunInLine },
  parent: ParentAddress,
  forget: () => void,
): ReplyChannel {
  const { replies, keys, read, logger } = parts;
  const feed = replyFeed((after, count) => read(() => replies.page(parent, after, count)));
  const readNew = () =>
    feed.readNew().catch((error) => {
      logger.debug({ problem: messageOf(error) }, "the reply channel could not be read; trying again soon");
    });
  const checking = new Set<Waiter>();
  const check = async (waiter: Waiter) => {
    checking.add(waiter);
    await findReply(parts, parent, feed, waiter);
    checking.delete(waiter);
  };
  const channel = replyChannel({ feed, ack: ackerOf(parts, parent), readNew, check });
  const enqueueOnce = onceInLine<Waiter | typeof readNew>(checkLine);
  const close = () => {
    forget();
    unwatch();
  };
  const unwatch = subscriber.watch(keys.parent(parent).doorbell, {
    onMessage(ring) {
      const item = itemOfRing(ring);
      const served = item && isReadable(item) && channel.offer(item);
      if (!served) void readNew();
    },
    onGap(cause) {
      if (cause === "tick" && channel.isUnused) return close();
      if (cause === "tick") enqueueOnce(readNew, readNew);
      else void readNew();
      // With thousands of waiters a check may take longer than a tick. After a gap only a new check counts.
      for (const waiter of channel.waiters)
        if (cause === "subscribed" || !checking.has(waiter))
          enqueueOnce(waiter, async () => {
            if (channel.waiters.has(waiter)) await check(waiter);
          });
    },
    onStop: () => {},
  });
  return channel;
}

/** Creates the feed of a channel over `read`, which returns up to `count` entries after an id. */
export function replyFeed(read: (after: string, count: number) => Promise<StreamPage>): ReplyFeed {
  const listeners = new Set<Listener>();
  let newest = OLDEST;
  let requests = 0;
  let reading: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  const readAll = async () => {
    for (;;) {
      const ready = [...listeners].filter((listener) => listener.wantsEntries());
      if (ready.length === 0) return;
      const after = ready.map((listener) => listener.cursor).reduce((a, b) => (isBehind(a, b) ? a : b));
      const page = await read(after, PAGE_ENTRIES);
      const last = page.items.at(-1)?.id ?? newest;
      if (isBehind(newest, last)) newest = last;
      for (const entry of page.items)
        for (const listener of ready) if (listeners.has(listener)) offer(listener, entry);
      if (page.isLast) return;
    }
  };
  const begin = () => {
    reading = readAll().finally(() => {
      reading = undefined;
    });
    return reading;
  };
  return {
    add: (listener) => void listeners.add(listener),
    remove: (listener) => void listeners.delete(listener),
    readNew() {
      requests += 1;
      if (!reading) return begin();
      next ??= reading
        .catch(() => {})
        .then(() => {
          next = undefined;
          return reading ?? begin();
        });
      return next;
    },
    get newest() {
      return newest;
    },
    get requests() {
      return requests;
    },
  };
}

/** Offers an entry after the listener's cursor, and moves the cursor to it. */
function offer(listener: Listener, entry: StreamItem): void {
  if (!isBehind(listener.cursor, entry.id)) return;
  listener.cursor = entry.id;
  if (isReadable(entry)) listener.offer(entry);
}

/**
 * Looks for a waiter's reply when its run is over; until then it reads a few bytes of the record, which may be large.
 *
 * 1. The record has the newest reply of a run, or the end of the agent, and its stream id. If the waiter waits for that one, no
 *    other entry is read.
 * 2. Otherwise the stream is read from the agent's spawn on. If it has no entry for the waiter though the run was over before
 *    this read, another reader has acked the entry.
 */
async function findReply(
  { store, replies, read, logger }: Pick<ChannelsParts, "store" | "replies" | "read" | "logger">,
  parent: ParentAddress,
  feed: ReplyFeed,
  waiter: Waiter,
): Promise<void> {
  try {
    const address = agentOf(parent, waiter.uid);
    const state = await read(() => store.runState(address));
    if (state && !isOver(state, waiter.run)) {
      waiter.mayTakeCopy = true;
      waiter.listen(cursorAt(state.created_at));
      return await feed.readNew();
    }
    const record = state && (await read(() => store.record(address)));
    const kept = record && keptReply(record);
    const isOfRun = kept?.entry.reply_id === replyIdOf(waiter.uid, waiter.run);
    if (kept && (isOfRun || record.run === 0)) {
      const firstAfter = async () =>
        (await read(() => replies.read(parent, cursorBefore(kept.id), 1)))[0]?.id;
      if (waiter.mayTakeCopy || (await firstAfter()) === kept.id) waiter.offer(kept);
    } else {
      waiter.listen(record ? cursorAt(record.created_at) : OLDEST);
      await feed.readNew();
      if (kept && waiter.mayTakeCopy) waiter.offer(kept);
    }
    waiter.fail(record ? takenByAnother(record, waiter.run) : forgotten(waiter.run));
  } catch (error) {
    logger.debug({ problem: messageOf(error) }, "a run could not be checked; trying again soon");
  }
}

function takenByAnother({ agent_id }: AgentRecord, run: number): SubagentError {
  const sentence = "Another reader of the channel acked the reply of this run.";
  return new SubagentError("agent_ended", sentence, { agent_id, run });
}

function forgotten(run: number): SubagentError {
  const sentence =
    "Redis no longer has this sub-agent: its record expired, or a failover lost it; the same call with its request_key spawns a new one.";
  return new SubagentError("unknown_agent", sentence, { run });
}

function isOver(state: RunState, run: number): boolean {
  if (state.status === "ended" || state.run > run) return true;
  return state.run === run && state.status === "idle";
}

/** Returns the cursor directly before one entry. */
function cursorBefore(id: string): string {
  const [ms = 0, seq = 0] = id.split("-").map(Number);
  return seq > 0 ? `${ms}-${seq - 1}` : `${ms - 1}-${LAST_OF_A_MS}`;
}
