/**
 * The reading of one parent's reply stream, shared by every reader and waiter of this process.
 *
 * Owns: the listeners, each with a cursor of its own, and one reading at a time. Its neighbours: `channel.ts` is what
 * listens, `inbox.ts` says when to look.
 *
 * 1. A listener is offered every unacked entry behind its cursor that this version can read, oldest first, each once.
 * 2. A look that is asked for during a reading is made after it: nothing that was there when it was asked for is missed.
 * 3. A failed reading moves no cursor; the next look starts where it stood.
 */
import { isReadable, type StreamEntry, type StreamItem } from "../../shared/redis/reply-stream.ts";

/** Entries asked for at a time. */
export const PAGE_ENTRIES = 100;
/** The cursor in front of the oldest entry. */
export const OLDEST = "0-0";
const LAST_OF_A_MS = "18446744073709551615";

/** A reader or waiter as the feed sees it. `offer` may not throw. */
export interface Listener {
  /** Id of the last entry that was offered; the feed moves it. */
  cursor: string;
  /** Whether it takes entries now; it asks for a look when it does again. */
  hungry(): boolean;
  offer(entry: StreamEntry): void;
}

/** See the module's header. */
export interface ReplyFeed {
  add(listener: Listener): void;
  remove(listener: Listener): void;
  /** Reads what is new; resolves when a reading that began after this call is over, rejects if it failed. */
  look(): Promise<void>;
  /** Id of the newest entry seen; every later entry has a greater one. */
  readonly newest: string;
  readonly size: number;
}

/** A feed over `read`, which answers up to `count` entries behind an id. */
export function replyFeed(read: (after: string, count: number) => Promise<StreamItem[]>): ReplyFeed {
  const listeners = new Set<Listener>();
  let newest = OLDEST;
  let reading: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  const readAll = async () => {
    for (;;) {
      const hungry = [...listeners].filter((listener) => listener.hungry());
      if (hungry.length === 0) return;
      const after = hungry.map((listener) => listener.cursor).reduce((a, b) => (isBehind(a, b) ? a : b));
      const page = await read(after, PAGE_ENTRIES);
      for (const entry of page) {
        if (isBehind(newest, entry.id)) newest = entry.id;
        for (const listener of hungry) {
          if (!listeners.has(listener) || !isBehind(listener.cursor, entry.id)) continue;
          listener.cursor = entry.id;
          if (isReadable(entry)) listener.offer(entry);
        }
      }
      if (page.length < PAGE_ENTRIES) return;
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
    look() {
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
    get size() {
      return listeners.size;
    },
  };
}

/** The cursor in front of what was written at or after a time of Redis, epoch ms. */
export function cursorAt(epochMs: number): string {
  return `${Math.max(0, epochMs - 1)}-0`;
}

/** The cursor in front of one entry. */
export function cursorBefore(id: string): string {
  const [ms = 0, seq = 0] = id.split("-").map(Number);
  return seq > 0 ? `${ms}-${seq - 1}` : `${ms - 1}-${LAST_OF_A_MS}`;
}

/** Whether stream id `a` is smaller than `b`. */
export function isBehind(a: string, b: string): boolean {
  const [aMs = 0, aSeq = 0] = a.split("-").map(Number);
  const [bMs = 0, bSeq = 0] = b.split("-").map(Number);
  return aMs === bMs ? aSeq < bSeq : aMs < bMs;
}
