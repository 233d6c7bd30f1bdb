/**
 * The reply channels of a client's parents: one subscriber, any number of readers and waiters.
 *
 * Owns: which channels are open and when each is looked at. Its neighbours: `reply-channel.ts` knows who reads and
 * waits, `subscriber.ts` hears the doorbells, the stream in Redis holds everything that is not acked.
 *
 * 1. The doorbell is a hint. A look at the stream follows each ring, each gap and each slow tick: none is ever needed.
 * 2. The doorbell is subscribed before the look that counts, so no wake-up is lost between the two.
 * 3. A waiter never waits for a reply that somebody else has acked: at each gap it is asked whether its run is over.
 */
import { messageOf, SubagentError } from "../shared/errors.ts";
import type { Logger } from "../shared/logger.ts";
import type { AgentRecord } from "../shared/protocol/agent.ts";
import type { Keys, ParentAddress } from "../shared/protocol/keys.ts";
import type { AgentStore } from "../shared/redis/agent-store.ts";
import type { ReplyStream, StreamEntry } from "../shared/redis/reply-stream.ts";
import type { Call } from "./call.ts";
import type { PushedStream } from "./pushed-stream.ts";
import type { AckEntry, ReceivedEntry } from "./received-entry.ts";
import {
  type ReaderOptions,
  type ReplyChannel,
  type Reservation,
  replyChannel,
  type TakeQuestion,
  type Waiter,
} from "./reply-channel.ts";
import { type ReplyFeed, replyFeed } from "./reply-feed.ts";
import type { Subscriber } from "./subscriber.ts";

/** See the module's header. */
export interface ReplyInbox {
  /** Every unacked entry of a parent, oldest first, then what comes; the client's end is its end too. */
  read(parent: ParentAddress, options: ReaderOptions): PushedStream<ReceivedEntry>;
  /** Keeps the final reply of an agent for the caller, who releases it; with `takeQuestion` its questions, too. */
  reserve(parent: ParentAddress, uid: string, takeQuestion?: TakeQuestion): Reservation;
  /** Whether an entry is kept for somebody here. */
  isReserved(parent: ParentAddress, entry: StreamEntry): boolean;
  /** Takes entries of a parent out of its channel. */
  acker(parent: ParentAddress): AckEntry;
  /** Looks at every channel somebody reads: Redis is back. */
  look(): void;
  /** Ends all readers; waiters reject with `closed`. Idempotent. */
  stop(): void;
}

/** What an inbox works with. */
export interface InboxParts {
  store: AgentStore;
  replies: ReplyStream;
  subscriber: Subscriber;
  keys: Keys;
  call(): Call;
  logger: Logger;
}

interface OpenChannel {
  channel: ReplyChannel;
  look(): void;
  unwatch(): void;
}

/** An inbox over one client's connections. */
export function createReplyInbox(parts: InboxParts): ReplyInbox {
  const { replies, keys, call } = parts;
  const channels = new Map<string, OpenChannel>();

  const acker: ReplyInbox["acker"] = (parent) => (entry, token) =>
    call().write({ what: "the ack", key: { reply_id: entry.entry.reply_id } }, () =>
      replies.ack(parent, entry, token),
    );
  const channelOf = (parent: ParentAddress): ReplyChannel => {
    const { doorbell } = keys.parent(parent);
    const open =
      channels.get(doorbell) ??
      openChannel(parts, parent, acker(parent), () => void channels.delete(doorbell));
    channels.set(doorbell, open);
    return open.channel;
  };
  return {
    acker,
    read: (parent, options) => channelOf(parent).read(options),
    reserve: (parent, uid, takeQuestion) => channelOf(parent).reserve(uid, takeQuestion),
    isReserved: (parent, entry) =>
      channels.get(keys.parent(parent).doorbell)?.channel.isReserved(entry) ?? false,
    look() {
      for (const { look } of channels.values()) look();
    },
    stop() {
      const sentence = "This client was stopped while it waited; the reply stays in the channel.";
      for (const { channel, unwatch } of [...channels.values()]) {
        channel.stop(new SubagentError("closed", sentence));
        unwatch();
      }
      channels.clear();
    },
  };
}

function openChannel(
  { store, replies, subscriber, keys, call, logger }: InboxParts,
  parent: ParentAddress,
  ack: AckEntry,
  forget: () => void,
): OpenChannel {
  const feed = replyFeed((after, count) => call().read(() => replies.read(parent, after, count)));
  const look = () => {
    feed.look().catch((error) => {
      logger.debug({ problem: messageOf(error) }, "the reply channel could not be read; looking again soon");
    });
  };
  const check = (waiter: Waiter) => void rejectIfTaken({ store, call, logger }, parent, feed, waiter);
  const deserted = () => {
    forget();
    unwatch();
  };
  const channel = replyChannel({ feed, ack, look, check, deserted });
  const unwatch = subscriber.watch(keys.parent(parent).doorbell, {
    onMessage: look,
    onGap() {
      look();
      for (const waiter of channel.waiters) check(waiter);
    },
    onStop: () => {},
  });
  return { channel, look, unwatch };
}

/** The record first, then the stream: a run that was over before the look and left no entry has been acked. */
async function rejectIfTaken(
  { store, call, logger }: Pick<InboxParts, "store" | "call" | "logger">,
  parent: ParentAddress,
  feed: ReplyFeed,
  waiter: Waiter,
): Promise<void> {
  try {
    const record = await call().read(() => store.record({ ...parent, uid: waiter.uid }));
    if (!isOver(record, waiter.run)) return;
    await feed.look();
    waiter.fail(record ? takenByAnother(record, waiter.run) : forgotten(waiter.run));
  } catch (error) {
    logger.debug({ problem: messageOf(error) }, "a run could not be looked at; looking again soon");
  }
}

function takenByAnother({ agent_id }: AgentRecord, run: number): SubagentError {
  const sentence = "The reply of this run was taken by another reader of the channel.";
  return new SubagentError("agent_ended", sentence, { agent_id, run });
}

function forgotten(run: number): SubagentError {
  const sentence =
    "Redis does not know this sub-agent any more: its record ran out, or a failover lost it; then the same call with its request_key makes it anew.";
  return new SubagentError("unknown_agent", sentence, { run });
}

function isOver(record: AgentRecord | undefined, run: number): boolean {
  if (!record || record.status === "ended" || record.run > run) return true;
  return record.run === run && record.status === "idle";
}
