/** Unacked entries as a parent's model gets to read them: gathered, put into words as data, acked when they are in its hands. */
import type { ParentAddress } from "../shared/protocol/keys.ts";
import type { ChannelEntry } from "../shared/protocol/reply.ts";
import { isReadable, type StreamEntry } from "../shared/redis/reply-stream.ts";
import type { OpenClient } from "./client.ts";
import { asData } from "./entry-text.ts";
import { OLDEST, PAGE_ENTRIES } from "./reply-feed.ts";
import { takeFromChannel } from "./taking.ts";
import type { WaitOptions } from "./waiting.ts";

/** Most entries handed over at a time; the others come with the next look. */
const MAX_FORWARDED = 20;

/**
 * What has come for a parent's model. `text`: every entry as data, ready to stand in the next user message, empty when
 * nothing came; `entries`: the same as objects, oldest first, at most 20.
 */
export interface NewReplies {
  text: string;
  entries: ChannelEntry[];
  /** Takes the entries out of the channel: call it once the message that carries `text` is safe. Until then they come again. */
  ack(): Promise<void>;
}

/** Whose entries, and how a wait ends with the parent. */
export interface ForwardRoom {
  client: OpenClient;
  parent: ParentAddress;
  open(end: () => void): () => void;
}

/** What has come; with `timeoutMs` waits so long for the first entry. Rejects with the signal's reason. */
export async function newReplies(
  room: ForwardRoom,
  { signal, timeoutMs = 0 }: WaitOptions = {},
): Promise<NewReplies> {
  signal?.throwIfAborted();
  let entries = await unackedEntries(room);
  if (entries.length === 0 && timeoutMs > 0) {
    await firstEntry(room, timeoutMs, signal);
    signal?.throwIfAborted();
    entries = await unackedEntries(room);
  }
  return handOver(room, entries.slice(0, MAX_FORWARDED));
}

/** Unacked entries of the parent, oldest first, of one agent or of all; not those that a waiter here has reserved. */
export async function unackedEntries({ client, parent }: ForwardRoom, uid?: string): Promise<StreamEntry[]> {
  const { inbox, replies } = client;
  const call = client.call();
  const found: StreamEntry[] = [];
  for (let after = OLDEST; ; ) {
    const page = await call.read(() => replies.read(parent, after, PAGE_ENTRIES));
    for (const entry of page) {
      const wanted = isReadable(entry) && (uid === undefined || entry.uid === uid);
      if (wanted && !inbox.isReserved(parent, entry)) found.push(entry);
    }
    const last = page.at(-1);
    if (!last || page.length < PAGE_ENTRIES || found.length >= MAX_FORWARDED) return found;
    after = last.id;
  }
}

/** The entries in a caller's hands. */
export function handOver({ client, parent }: ForwardRoom, entries: readonly StreamEntry[]): NewReplies {
  return {
    text: entries.map(({ entry }) => asData(entry)).join("\n\n"),
    entries: entries.map(({ entry }) => entry),
    async ack() {
      await Promise.all(entries.map((entry) => takeFromChannel(client, parent, entry)));
    },
  };
}

/** Resolves when there is an entry to read, when the time is up, or when the wait was ended from outside. */
async function firstEntry(
  { client, parent, open }: ForwardRoom,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const stream = client.inbox.read(parent, { signal });
  const close = open(() => stream.end());
  const timer = client.clock.timeout(timeoutMs, () => stream.end());
  try {
    await stream.next();
  } finally {
    timer.cancel();
    close();
    stream.end();
  }
}
