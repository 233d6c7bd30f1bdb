/**
 * One parent's reply channel, while this process has a reader or a waiter on it.
 *
 * Owns: the readers and waiters, each with its own cursor, and which runs' final replies and agents' questions are reserved.
 * Its neighbour `client-channels.ts` reads the stream and ends a wait that has become pointless.
 *
 * 1. A reader sees every unacked entry, except what an agent's reservation covers: the reply of the awaited run, or the
 *    entry that ends the agent; any final reply until the run is known; and its questions if the waiter answers them.
 * 2. As soon as no reservation covers an entry that was held back, the readers get it, unless a waiter has acked it.
 * 3. A read that began before a waiter's ack brings no reader what is over with it: the reply, and questions that it answered.
 */
import { newRequestKey } from "../../shared/protocol/ids.ts";
import {
  type ChannelEntry,
  isBehind,
  OLDEST,
  type Question,
  type Reply,
} from "../../shared/protocol/reply.ts";
import type { StreamEntry } from "../../shared/redis/replies.ts";
import { createPushIterator, type PushIterator } from "../push-iterator.ts";

/** A final reply and its position in the stream. */
export type FinalEntry = StreamEntry & { entry: Reply };

/** A question and its position in the stream. */
export type QuestionEntry = StreamEntry & { entry: Question };
/** Receives each question of a reserved agent. Must not throw. */
export type TakeQuestion = (entry: QuestionEntry) => void;

/**
 * The kind of a wait. `spawnedAtMs`: the agent was spawned after the reservation, at this time of Redis (epoch ms), so the waiter
 * skips earlier entries. For an agent that existed before: `even_if_acked` also accepts a reply that was acked earlier;
 * `only_if_unacked` accepts a reply only if it was unacked when the wait began.
 */
export type WaitKind = { spawnedAtMs: number } | "even_if_acked" | "only_if_unacked";

/** The final replies of an agent, reserved for one waiter; from its wait on, only those that end the wait. */
export interface Reservation {
  /**
   * Resolves with the reply of run `run`, or with the entry that ended the agent. Rejects with the reason given to
   * `cancel`, or with `agent_ended` if the reply was acked before the wait began. A reply that is acked during the wait is
   * read from the agent's record.
   */
  wait(run: number, how: WaitKind): Promise<FinalEntry>;
  /** Ends the wait with `reason`. */
  cancel(reason: unknown): void;
  /** Ends the reservation; `acked`: the entry that is acked, and with it the questions that the waiter answers. Idempotent. */
  release(acked: FinalEntry | false): void;
}

/** A wait for the reply of one run. */
export interface Waiter {
  readonly uid: string;
  readonly run: number;
  /**
   * Whether the waiter accepts a copy of the reply from the agent's record or a ring, which may come after the ack. True if
   * no reader had acked the reply when the wait began, or if the wait is `even_if_acked`.
   */
  mayTakeCopy: boolean;
  /** Offers it the channel's entries after `cursor`, then new ones; only the first call counts. */
  listen(cursor: string): void;
  /** Ends the wait if the entry is the awaited reply, passes a question on, and ignores every other entry. */
  offer(entry: StreamEntry): void;
  /** Ends the wait with an error; does nothing if the reply has arrived. */
  fail(reason: unknown): void;
}

/** One entry of the reply channel as a reader receives it. */
export type ReceivedEntry = ChannelEntry & {
  /**
   * Removes the entry from the channel; true if this ack was the first. Repeat it after `outcome_unknown`: the answer
   * will be the same. Rejects like every call if Redis is unavailable; the entry is then still in the channel.
   */
  ack(): Promise<boolean>;
};

/** Removes an entry from its channel; `token` identifies this ack, so that a repeated one gives the same answer. */
export type AckEntry = (entry: StreamEntry, token: string) => Promise<boolean>;

/** A reader or waiter as the feed sees it. `offer` must not throw. */
export interface Listener {
  /** Id of the last offered entry; the feed advances it. */
  cursor: string;
  /** Whether it takes entries now; when it takes entries again, it requests a read. */
  wantsEntries(): boolean;
  offer(entry: StreamEntry): void;
}

/** The one reader of a channel's stream, for all its listeners. */
export interface ReplyFeed {
  add(listener: Listener): void;
  remove(listener: Listener): void;
  /** Reads new entries; resolves when a read that began after this call is complete, rejects if it failed. */
  readNew(): Promise<void>;
  /** Number of reads requested so far: it grows with each sign of an entry that no waiter took. */
  readonly requests: number;
  /** Id of the newest entry seen; every later entry has a greater id. */
  readonly newest: string;
}

/** Dependencies of a channel. */
export interface ChannelParts {
  feed: ReplyFeed;
  ack: AckEntry;
  /** Reads new entries of the stream. */
  readNew(): void;
  /** Reads the agent's record to find the reply of a wait, or to end the wait if no reply can come. */
  check(waiter: Waiter): void;
}

/** Options of a reader: `signal` ends it; `onEnd` runs once when it ends, by the signal or by itself. */
export interface ReaderOptions {
  signal?: AbortSignal | undefined;
  onEnd?: () => void;
}

/** See the module's header. */
export interface ReplyChannel {
  read(options: ReaderOptions): PushIterator<ReceivedEntry>;
  /** Reserves the agent's final replies. `takeQuestion`: the waiter also gets the agent's questions. */
  reserve(uid: string, takeQuestion?: TakeQuestion): Reservation;
  /** Hands the final reply of a ring to its waiters; true if one took it and the channel has no reader. */
  offer(entry: StreamEntry): boolean;
  /** Whether an entry is reserved for a waiter, or over since one acked it. */
  isReserved(entry: StreamEntry): boolean;
  readonly waiters: ReadonlySet<Waiter>;
  /** Whether it has neither a reader nor a reservation. */
  readonly isUnused: boolean;
  /** Ends the readers; waiters reject with `reason`, present and later ones. The first call counts. */
  stop(reason: unknown): void;
}

interface Reader {
  stream: PushIterator<ReceivedEntry>;
  /** The entries that are held back from it, by uid, so that each of many waits checks only those of its own agent. */
  kept: Map<string, StreamEntry[]>;
}

/** The entries that one reservation covers; no `run` yet: every final reply. */
interface Cover {
  run: number | undefined;
  readonly questions: boolean;
}

/** The reservations of one agent, and the ids of the entries that its waiters acked while it has any. */
interface Reserved {
  readonly covers: Set<Cover>;
  readonly acked: Set<string>;
}

interface State {
  parts: ChannelParts;
  readers: Set<Reader>;
  waiters: Set<Waiter>;
  /** By uid. */
  reserved: Map<string, Reserved>;
  /** Ids of entries that waiters acked, and uids of agents whose questions they answered: the newest {@link MOST_OVER}. */
  over: Set<string>;
  stopped: { reason: unknown } | undefined;
}

/** Creates a channel over one feed. */
export function replyChannel(parts: ChannelParts): ReplyChannel {
  const state: State = {
    parts,
    readers: new Set(),
    waiters: new Set(),
    reserved: new Map(),
    over: new Set(),
    stopped: undefined,
  };
  return {
    waiters: state.waiters,
    get isUnused() {
      return state.readers.size === 0 && state.reserved.size === 0;
    },
    read: (options) => openReader(state, options),
    reserve: (uid, takeQuestion) => openReservation(state, uid, takeQuestion),
    offer(entry) {
      if (!isFinal(entry) || !state.reserved.has(entry.uid)) return false;
      const before = state.waiters.size;
      for (const waiter of [...state.waiters]) if (waiter.mayTakeCopy) waiter.offer(entry);
      return state.readers.size === 0 && state.waiters.size < before;
    },
    isReserved: (entry) => isOver(state, entry) || isKept(state, entry),
    stop(reason) {
      state.stopped ??= { reason };
      for (const reader of [...state.readers]) reader.stream.end();
      for (const waiter of [...state.waiters]) waiter.fail(reason);
    },
  };
}

function isKept({ reserved }: State, entry: StreamEntry): boolean {
  const covers = [...(reserved.get(entry.uid)?.covers ?? [])];
  if (isQuestion(entry)) return covers.some(({ questions }) => questions);
  return isFinal(entry) && covers.some(({ run }) => run === undefined || endsWait(entry, run));
}

/** More than a parent's agents end while the stream is read once. */
const MOST_OVER = 1_000;

function noteOver({ over }: State, name: string): void {
  over.add(name);
  const [oldest] = over;
  if (over.size > MOST_OVER && oldest !== undefined) over.delete(oldest);
}

/** Returns whether a waiter has acked the entry, or answered the question. */
function isOver({ over }: State, entry: StreamEntry): boolean {
  return over.has(entry.id) || (isQuestion(entry) && over.has(entry.uid));
}

/** Gives the readers each held-back entry of the agent that no reservation covers any more, unless it is acked. */
function handOver(
  state: State,
  { uid, isAcked }: { uid: string; isAcked(entry: StreamEntry): boolean },
): void {
  for (const { kept, stream } of state.readers) {
    const before = kept.get(uid) ?? [];
    kept.delete(uid);
    for (const entry of before) {
      if (isKept(state, entry)) keep(kept, entry);
      else if (!isAcked(entry)) stream.push(received(entry, state.parts.ack));
    }
  }
}

function keep(kept: Reader["kept"], entry: StreamEntry): void {
  kept.set(entry.uid, [...(kept.get(entry.uid) ?? []), entry]);
}

function openReader(state: State, { signal, onEnd }: ReaderOptions): PushIterator<ReceivedEntry> {
  const { parts, readers } = state;
  const listener: Listener = {
    cursor: OLDEST,
    wantsEntries: () => stream.waiting === 0,
    offer(entry) {
      if (isOver(state, entry)) return;
      if (isKept(state, entry)) keep(reader.kept, entry);
      else stream.push(received(entry, parts.ack));
    },
  };
  const stream = createPushIterator<ReceivedEntry>({
    signal,
    onEmpty: parts.readNew,
    onEnd: () => {
      parts.feed.remove(listener);
      onEnd?.();
      // A signal that is already aborted ends the stream while it is created.
      queueMicrotask(() => readers.delete(reader));
    },
  });
  const reader: Reader = { stream, kept: new Map() };
  readers.add(reader);
  if (state.stopped) stream.end();
  else if (!signal?.aborted) parts.feed.add(listener);
  return stream;
}

function openReservation(state: State, uid: string, takeQuestion?: TakeQuestion): Reservation {
  const { parts, reserved } = state;
  const before = { newest: parts.feed.newest, requests: parts.feed.requests };
  const ofAgent = reserved.get(uid) ?? { covers: new Set(), acked: new Set() };
  const cover: Cover = { run: undefined, questions: takeQuestion !== undefined };
  ofAgent.covers.add(cover);
  reserved.set(uid, ofAgent);
  let waiting: Waiter | undefined;
  let cancelled: { reason: unknown } | undefined;
  return {
    wait(run, how) {
      const over = cancelled ?? state.stopped;
      if (over) return Promise.reject(over.reason);
      cover.run = run;
      handOver(state, { uid, isAcked: ({ id }) => ofAgent.acked.has(id) });
      const { promise, waiter } = openWaiter(state, { uid, run, takeQuestion });
      waiter.mayTakeCopy = how !== "only_if_unacked";
      waiting = waiter;
      if (typeof how === "string") parts.check(waiter);
      else {
        const born = cursorAt(how.spawnedAtMs);
        waiter.listen(isBehind(before.newest, born) ? born : before.newest);
        // The feed reads after each ring that no waiter took, perhaps that of this entry. Otherwise its ring is still to come.
        if (parts.feed.requests !== before.requests) parts.readNew();
      }
      return promise;
    },
    cancel(reason) {
      cancelled ??= { reason };
      waiting?.fail(reason);
    },
    release(acked) {
      if (!ofAgent.covers.delete(cover)) return;
      if (acked) {
        ofAgent.acked.add(acked.id);
        noteOver(state, acked.id);
        if (cover.questions) noteOver(state, uid);
      }
      if (ofAgent.covers.size === 0) reserved.delete(uid);
      const isAnswered = (entry: StreamEntry) => acked !== false && isQuestion(entry);
      handOver(state, { uid, isAcked: (entry) => ofAgent.acked.has(entry.id) || isAnswered(entry) });
    },
  };
}

interface Wanted {
  uid: string;
  run: number;
  takeQuestion: TakeQuestion | undefined;
}

function openWaiter({ parts, waiters }: State, { uid, run, takeQuestion }: Wanted) {
  let listener: Listener | undefined;
  const over = () => {
    if (listener) parts.feed.remove(listener);
    waiters.delete(waiter);
  };
  let resolve: (entry: FinalEntry) => void = () => {};
  let reject: (reason: unknown) => void = () => {};
  const promise = new Promise<FinalEntry>((settle, fail) => {
    resolve = settle;
    reject = fail;
  });
  const offer = (entry: StreamEntry) => {
    if (entry.uid !== uid) return;
    if (isQuestion(entry)) return takeQuestion?.(entry);
    if (!isFinal(entry) || !endsWait(entry, run)) return;
    over();
    resolve(entry);
  };
  const waiter: Waiter = {
    uid,
    run,
    mayTakeCopy: false,
    listen(cursor) {
      if (!waiters.has(waiter) || listener) return;
      listener = { cursor, wantsEntries: () => true, offer };
      parts.feed.add(listener);
    },
    offer,
    fail(reason) {
      over();
      reject(reason);
    },
  };
  waiters.add(waiter);
  return { promise, waiter };
}

/** Returns true for the reply of the run, and for the entry that ended the agent. */
function endsWait({ entry }: FinalEntry, run: number): boolean {
  return entry.run === run || entry.agent_status === "ended";
}

function isFinal(entry: StreamEntry): entry is FinalEntry {
  return entry.entry.kind === "reply" || entry.entry.kind === "ended";
}

function isQuestion(entry: StreamEntry): entry is QuestionEntry {
  return entry.entry.kind === "question";
}

/** Returns the entry with an `ack` of its own, in the form that a reader gets. */
export function received(entry: StreamEntry, ack: AckEntry): ReceivedEntry {
  const token = newRequestKey();
  let answered = false;
  return {
    ...entry.entry,
    async ack() {
      if (answered) return false;
      const first = await ack(entry, token);
      // Two simultaneous calls of this handle have the same token: only one of them may return true.
      const won = first && !answered;
      answered = true;
      return won;
    },
  };
}

/** Returns the cursor directly before the entries written at or after a time of Redis, epoch ms. */
export function cursorAt(epochMs: number): string {
  return `${epochMs - 1}-0`;
}
