/** What has come for a parent and is not acked: one entry after another for a reader, or put into words for a model. */
import { z } from "zod";
import { agentOf } from "../shared/protocol/keys.ts";
import type { ChannelEntry } from "../shared/protocol/reply.ts";
import type { StreamEntry } from "../shared/redis/replies.ts";
import type { ClientResources } from "./client-resources.ts";
import { readInput } from "./input.ts";
import { asData } from "./model-text.ts";
import type { ParentContext } from "./parent-context.ts";
import { whenOpened } from "./push-iterator.ts";
import type { ChannelPart } from "./replies/client-channels.ts";
import { cursorAt, type ReceivedEntry } from "./replies/parent-channel.ts";
import { TimeoutMs, type WaitOptions } from "./wait.ts";

/** How entries are read: `follow` (default true) goes on with what comes; `signal` ends the reading. */
export interface RepliesOptions {
  signal?: AbortSignal;
  follow?: boolean;
}

/** A parent's unacked entries; see `Parent.replies`. */
export function readReplies(
  context: ParentContext,
  { signal, follow = true }: RepliesOptions = {},
): AsyncIterableIterator<ReceivedEntry> {
  if (!follow) return readUnacked(context, signal);
  const { profile, onStop } = context;
  const opening = context.open().then(({ channels }) => {
    let forgetStop = () => {};
    const stream = channels.read(profile.parent, { signal, onEnd: () => forgetStop() });
    forgetStop = onStop(stream.end);
    return stream;
  });
  return whenOpened(opening);
}

async function* readUnacked(
  { open, profile: { parent } }: ParentContext,
  signal: AbortSignal | undefined,
): AsyncGenerator<ReceivedEntry, undefined> {
  const { channels } = await open();
  for await (const entry of channels.unacked(parent)) {
    if (signal?.aborted) return;
    yield channels.received(parent, entry);
  }
}

/** Most entries handed over at a time; the others come with the next look. */
const MAX_ENTRIES = 20;

/**
 * What has come for a parent's model. `text`: every entry as data, ready to stand in the next user message, empty when
 * nothing came; `entries`: the same as objects, oldest first, at most 20.
 */
export interface NewReplies {
  text: string;
  entries: ChannelEntry[];
  /**
   * Takes the entries out of the channel: call it once the message that carries `text` is safe. Until then they come again.
   * Rejects as `ack` of a single entry does; what it has not taken then a second call takes.
   */
  ack(): Promise<void>;
}

const NewRepliesWish = z.object({ timeout_ms: TimeoutMs });

/** What has come; with `timeout_ms` waits so long for the first entry. Rejects with `invalid_input`, with the signal's reason. */
export async function newReplies(
  context: ParentContext,
  { signal, timeout_ms: wished }: WaitOptions = {},
): Promise<NewReplies> {
  const { timeout_ms = 0 } = readInput(NewRepliesWish, { timeout_ms: wished }, "newReplies");
  signal?.throwIfAborted();
  const client = await context.open();
  let entries = await unackedEntries(context, client);
  if (entries.length === 0 && timeout_ms > 0) {
    await firstEntry(context, client, timeout_ms, signal);
    signal?.throwIfAborted();
    entries = await unackedEntries(context, client);
  }
  const held = entries.map((entry) => client.channels.received(context.profile.parent, entry));
  return handOver(entries, () => Promise.all(held.map((entry) => entry.ack())));
}

/**
 * What has come from one agent; its `ack` never rejects: who gets the text has it, whatever becomes of the ack. Of the channel, only
 * what came in the agent's life is read.
 */
export async function newRepliesOf(context: ParentContext, uid: string): Promise<NewReplies> {
  const client = await context.open();
  const { parent } = context.profile;
  const record = await client.call(({ read }) => read(() => client.store.record(agentOf(parent, uid))));
  const upTo = record?.status === "ended" ? record.reply?.entry_id : undefined;
  const part = record ? { after: cursorAt(record.created_at), upTo } : {};
  const entries = await unackedEntries(context, client, { uid, ...part });
  const tryAck = (entry: StreamEntry) => client.channels.tryAck(parent, entry);
  return handOver(entries, () => Promise.all(entries.map(tryAck)));
}

/** Unacked entries of a part of the parent's channel, oldest first, of one agent or of all. */
async function unackedEntries(
  { profile }: ParentContext,
  { channels }: ClientResources,
  { uid, ...part }: ChannelPart & { uid?: string } = {},
): Promise<StreamEntry[]> {
  const found: StreamEntry[] = [];
  for await (const entry of channels.unacked(profile.parent, part)) {
    if (uid === undefined || entry.uid === uid) found.push(entry);
    if (found.length === MAX_ENTRIES) break;
  }
  return found;
}

function handOver(entries: readonly StreamEntry[], ack: () => Promise<unknown>): NewReplies {
  return {
    text: entries.map(({ entry }) => asData(entry)).join("\n\n"),
    entries: entries.map(({ entry }) => entry),
    async ack() {
      await ack();
    },
  };
}

/** Resolves when there is an entry to read, when the time is up, or when the wait was ended from outside. */
async function firstEntry(
  context: ParentContext,
  { channels, clock }: ClientResources,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const stream = channels.read(context.profile.parent, { signal });
  const forgetStop = context.onStop(() => stream.end());
  const timer = clock.timeout(timeoutMs, () => stream.end());
  try {
    await stream.next();
  } finally {
    timer.cancel();
    forgetStop();
    stream.end();
  }
}
