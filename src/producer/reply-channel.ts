/**
 * One parent's reply channel, as long as somebody in this process reads it or waits for a reply.
 *
 * Owns: the readers, the waiters, and who has reserved which agent's final reply and questions. Its neighbours: `reply-feed.ts`
 * reads the stream, `reply-inbox.ts` says when to look and when a wait has become pointless.
 *
 * 1. A reader sees every unacked entry, except the final reply of an agent that a waiter has reserved, and its questions
 *    where the waiter answers them.
 * 2. When a reservation ends without its reply having been taken, the readers get what was kept from them.
 */
import type { Question, Reply } from "../shared/protocol/reply.ts";
import type { StreamEntry } from "../shared/redis/reply-stream.ts";
import { type PushedStream, pushedStream } from "./pushed-stream.ts";
import { type AckEntry, type ReceivedEntry, received } from "./received-entry.ts";
import { type Listener, OLDEST, type ReplyFeed } from "./reply-feed.ts";

/** A final reply and where it stands. */
export type FinalEntry = StreamEntry & { entry: Reply };

/** A question and where it stands. */
export type QuestionEntry = StreamEntry & { entry: Question };
/** Takes the questions of a reserved agent; may not throw. */
export type TakeQuestion = (entry: QuestionEntry) => void;

/** The final reply of an agent, kept for one waiter. */
export interface Reservation {
  /**
   * Resolves with the reply of run `run`, or with the entry that ended the agent. `fresh`: the agent was spawned after
   * the reservation, so earlier entries need no look. Rejects with `agent_ended` when somebody else has acked it, or
   * with the reason given to `cancel`.
   */
  wait(run: number, fresh: boolean): Promise<FinalEntry>;
  /** Ends the waiting with `reason`. */
  cancel(reason: unknown): void;
  /** Ends the reservation; `taken` = the reply is acked or about to be. Idempotent. */
  release(taken: boolean): void;
}

/** Somebody who waits for the reply of one run. */
export interface Waiter {
  readonly uid: string;
  readonly run: number;
  /** Ends the waiting; does nothing when the reply is there already. */
  fail(reason: unknown): void;
}

/** What a channel needs from the inbox it belongs to. */
export interface ChannelRoom {
  feed: ReplyFeed;
  ack: AckEntry;
  /** Has the stream looked at. */
  look(): void;
  /** Has it checked whether a wait has become pointless. */
  check(waiter: Waiter): void;
  /** Nobody reads or waits any more. */
  deserted(): void;
}

/** How a reader ends: by `signal`, by itself; `onEnd` runs once, whatever it was. */
export interface ReaderOptions {
  signal?: AbortSignal | undefined;
  onEnd?: () => void;
}

/** See the module's header. */
export interface ReplyChannel {
  read(options: ReaderOptions): PushedStream<ReceivedEntry>;
  /** `takeQuestion`: the waiter gets the agent's questions, too. */
  reserve(uid: string, takeQuestion?: TakeQuestion): Reservation;
  /** Whether an entry is kept for a waiter. */
  isReserved(entry: StreamEntry): boolean;
  readonly waiters: ReadonlySet<Waiter>;
  /** Ends the readers; waiters reject with `reason`. */
  stop(reason: unknown): void;
}

interface Reader {
  stream: PushedStream<ReceivedEntry>;
  kept: StreamEntry[];
}

interface State {
  room: ChannelRoom;
  readers: Set<Reader>;
  waiters: Set<Waiter>;
  /** uid → number of reservations. */
  reserved: Map<string, number>;
  /** Uids of reserved agents whose questions are kept, too. */
  answered: Set<string>;
}

/** A channel over one feed. */
export function replyChannel(room: ChannelRoom): ReplyChannel {
  const state: State = {
    room,
    readers: new Set(),
    waiters: new Set(),
    reserved: new Map(),
    answered: new Set(),
  };
  return {
    waiters: state.waiters,
    read: (options) => openReader(state, options),
    reserve: (uid, takeQuestion) => openReservation(state, uid, takeQuestion),
    isReserved: (entry) => isKept(state, entry),
    stop(reason) {
      for (const reader of [...state.readers]) reader.stream.end();
      for (const waiter of [...state.waiters]) waiter.fail(reason);
    },
  };
}

function isKept({ reserved, answered }: State, entry: StreamEntry): boolean {
  return (isFinal(entry) && reserved.has(entry.uid)) || (isQuestion(entry) && answered.has(entry.uid));
}

function leave({ room, readers, reserved }: State): void {
  if (readers.size === 0 && reserved.size === 0) room.deserted();
}

function openReader(state: State, { signal, onEnd }: ReaderOptions): PushedStream<ReceivedEntry> {
  const { room, readers } = state;
  const listener: Listener = {
    cursor: OLDEST,
    hungry: () => stream.waiting === 0,
    offer(entry) {
      if (isKept(state, entry)) reader.kept.push(entry);
      else stream.push(received(entry, room.ack));
    },
  };
  const stream = pushedStream<ReceivedEntry>({
    signal,
    onEmpty: room.look,
    onEnd: () => {
      room.feed.remove(listener);
      onEnd?.();
      // A signal that was aborted before ends the stream while it is being made.
      queueMicrotask(() => {
        readers.delete(reader);
        leave(state);
      });
    },
  });
  const reader: Reader = { stream, kept: [] };
  readers.add(reader);
  if (!signal?.aborted) room.feed.add(listener);
  return stream;
}

function openReservation(state: State, uid: string, takeQuestion?: TakeQuestion): Reservation {
  const { room, readers, reserved, answered } = state;
  const before = room.feed.newest;
  reserved.set(uid, (reserved.get(uid) ?? 0) + 1);
  if (takeQuestion) answered.add(uid);
  let released = false;
  let waiting: Waiter | undefined;
  let cancelled: { reason: unknown } | undefined;
  return {
    wait(run, fresh) {
      if (cancelled) return Promise.reject(cancelled.reason);
      const { promise, waiter } = openWaiter(state, { uid, run, takeQuestion }, fresh ? before : OLDEST);
      waiting = waiter;
      room.look();
      if (!fresh) room.check(waiter);
      return promise;
    },
    cancel(reason) {
      cancelled ??= { reason };
      waiting?.fail(reason);
    },
    release(taken) {
      if (released) return;
      released = true;
      const left = (reserved.get(uid) ?? 1) - 1;
      if (left > 0) {
        reserved.set(uid, left);
        return;
      }
      reserved.delete(uid);
      answered.delete(uid);
      for (const reader of readers) {
        const own = reader.kept.filter((entry) => entry.uid === uid);
        reader.kept = reader.kept.filter((entry) => entry.uid !== uid);
        if (!taken) for (const entry of own) reader.stream.push(received(entry, room.ack));
      }
      leave(state);
    },
  };
}

interface Wanted {
  uid: string;
  run: number;
  takeQuestion: TakeQuestion | undefined;
}

function openWaiter({ room, waiters }: State, { uid, run, takeQuestion }: Wanted, cursor: string) {
  const over = () => {
    room.feed.remove(listener);
    waiters.delete(waiter);
  };
  let resolve: (entry: FinalEntry) => void = () => {};
  let reject: (reason: unknown) => void = () => {};
  const promise = new Promise<FinalEntry>((settle, fail) => {
    resolve = settle;
    reject = fail;
  });
  const waiter: Waiter = {
    uid,
    run,
    fail(reason) {
      over();
      reject(reason);
    },
  };
  const listener: Listener = {
    cursor,
    hungry: () => true,
    offer(entry) {
      if (entry.uid !== uid) return;
      if (isQuestion(entry)) return takeQuestion?.(entry);
      if (!isFinal(entry)) return;
      if (entry.entry.run !== run && entry.entry.agent_status !== "ended") return;
      over();
      resolve(entry);
    },
  };
  room.feed.add(listener);
  waiters.add(waiter);
  return { promise, waiter };
}

function isFinal(entry: StreamEntry): entry is FinalEntry {
  return entry.entry.kind === "reply" || entry.entry.kind === "ended";
}

function isQuestion(entry: StreamEntry): entry is QuestionEntry {
  return entry.entry.kind === "question";
}
