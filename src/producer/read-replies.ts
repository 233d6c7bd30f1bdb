/** A parent's unacked entries: one after another for a reader, or as text for a model. */
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

/** Options of a reader: `follow` (default true) goes on with new entries; `signal` ends the iterator. */
export interface RepliesOptions {
  signal?: AbortSignal;
  follow?: boolean;
}

/** Iterates over a parent's unacked entries; see `Parent.replies`. */
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

/** Maximum entries of one call; the next call returns the others. */
const MAX_ENTRIES = 20;

/**
 * Unacked entries for a parent's model. `text`: every entry as data for the next user message, empty if there are none;
 * `entries`: the same as objects, oldest first, at most 20.
 */
export interface NewReplies {
  text: string;
  entries: ChannelEntry[];
  /**
   * Removes the entries from the channel: call it after the message with `text` is stored. Until then they come again.
   * Rejects as `ack` of a single entry does; a second call then removes the rest.
   */
  ack(): Promise<void>;
}

const NewRepliesInput = z.object({ timeout_ms: TimeoutMs });

/** Reads unacked entries; waits up to `timeout_ms` for the first. Rejects with `invalid_input` or the signal's reason. */
export async function newReplies(
  context: ParentContext,
  { signal, ...options }: WaitOptions = {},
): Promise<NewReplies> {
  const { timeout_ms = 0 } = readInput(NewRepliesInput, { timeout_ms: options.timeout_ms }, "newReplies");
  signal?.throwIfAborted();
  const client = await context.open();
  let entries = await unackedEntries(context, client);
  if (entries.length === 0 && timeout_ms > 0) {
    await firstEntry(context, client, timeout_ms, signal);
    signal?.throwIfAborted();
    entries = await unackedEntries(context, client);
  }
  const held = entries.map((entry) => client.channels.received(context.profile.parent, entry));
  return withAck(entries, () => Promise.all(held.map((entry) => entry.ack())));
}

/**
 * Reads the unacked entries of one agent. Its `ack` never rejects: the caller has the text even if the ack fails. Reads only
 * the part of the channel from the agent's lifetime.
 */
export async function newRepliesOf(context: ParentContext, uid: string): Promise<NewReplies> {
  const client = await context.open();
  const { parent } = context.profile;
  const record = await client.call(({ read }) => read(() => client.store.record(agentOf(parent, uid))));
  const upTo = record?.status === "ended" ? record.reply?.entry_id : undefined;
  const part = record ? { after: cursorAt(record.created_at), upTo } : {};
  const entries = await unackedEntries(context, client, { uid, ...part });
  const tryAck = (entry: StreamEntry) => client.channels.tryAck(parent, entry);
  return withAck(entries, () => Promise.all(entries.map(tryAck)));
}

/** Reads unacked entries of a part of the parent's channel, oldest first, of one agent or of all. */
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

function withAck(entries: readonly StreamEntry[], ack: () => Promise<unknown>): NewReplies {
  return {
    text: entries.map(({ entry }) => asData(entry)).join("\n\n"),
    entries: entries.map(({ entry }) => entry),
    async ack() {
      await ack();
    },
  };
}

/** Resolves at the first entry, after `timeoutMs`, or when the signal or the parent's stop ends the wait. */
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
