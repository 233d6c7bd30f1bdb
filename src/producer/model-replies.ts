/** A parent's unacked entries as text for a model, and the ack of what a model does not read. */
import { isUnreadable } from "../shared/errors.ts";
import type { AgentRecord, AgentStatus } from "../shared/protocol/agent.ts";
import { agentOf, type ParentAddress } from "../shared/protocol/keys.ts";
import type { ChannelEntry, Question } from "../shared/protocol/reply.ts";
import type { StreamEntry } from "../shared/redis/replies.ts";
import type { ClientResources } from "./client-resources.ts";
import { readOptions } from "./input.ts";
import { asData } from "./model-text.ts";
import type { ParentContext } from "./parent-context.ts";
import type { ChannelPart } from "./replies/client-channels.ts";
import { cursorAt } from "./replies/parent-channel.ts";
import { WaitInput, type WaitOptions } from "./wait.ts";

/** Maximum entries of one call; the next call returns the others. */
const MAX_ENTRIES = 20;

/**
 * Unacked entries for a parent's model. `text`: every entry as data for the next user message, each cut to 5,000 characters;
 * empty if there are none. It says of a question that takes no answer any more (answered, or its agent has finished or ended)
 * that it is closed.
 * `entries`: the entries as objects, unchanged since they were written, oldest first, at most 20.
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

/** Reads unacked entries; waits up to `timeout_ms` for the first. Rejects with `invalid_input` or the signal's reason. */
export async function newReplies(context: ParentContext, options: WaitOptions = {}): Promise<NewReplies> {
  const { signal, timeout_ms = 0 } = readOptions(WaitInput, options, "newReplies");
  signal?.throwIfAborted();
  const client = await context.open();
  let entries = await unackedEntries(context, client);
  if (entries.length === 0 && timeout_ms > 0) {
    await firstEntry(context, client, timeout_ms, signal);
    signal?.throwIfAborted();
    entries = await unackedEntries(context, client);
  }
  const held = entries.map((entry) => client.channels.received(context.profile.parent, entry));
  const text = await textOf(client, context.profile.parent, entries);
  return withAck(text, entries, () => Promise.all(held.map((entry) => entry.ack())));
}

/**
 * Reads the unacked entries of one agent. Its `ack` never rejects: the caller has the text even if the ack fails. Reads only
 * the part of the channel from the agent's lifetime.
 */
export async function newRepliesOf(context: ParentContext, uid: string): Promise<NewReplies> {
  const client = await context.open();
  const { parent } = context.profile;
  const record = await client.read(() => client.store.record(agentOf(parent, uid)));
  const upTo = record?.status === "ended" ? record.reply?.entry_id : undefined;
  const part = record ? { after: cursorAt(record.created_at), upTo } : {};
  const entries = await unackedEntries(context, client, { uid, ...part });
  const tryAck = (entry: StreamEntry) => client.channels.tryAck(parent, entry);
  const text = await textOf(client, parent, entries);
  return withAck(text, entries, () => Promise.all(entries.map(tryAck)));
}

/**
 * Acks the questions of an agent that has ended, up to the entry with the id `upTo`: they take no answer any more, and a client that
 * was answered with the reply reads no channel. Never rejects; questions that are not acked stay in the channel.
 */
export async function ackQuestions(
  { open, profile: { parent } }: ParentContext,
  { uid, created_at }: Pick<AgentRecord, "uid" | "created_at">,
  upTo: string,
): Promise<void> {
  try {
    const { channels } = await open();
    for await (const entry of channels.unacked(parent, { after: cursorAt(created_at), upTo, uid }))
      if (entry.entry.kind === "question") await channels.tryAck(parent, entry);
  } catch {
    // Redis is away, and forgets them in a week.
  }
}

/** Reads unacked entries of a part of the parent's channel, oldest first. */
async function unackedEntries(
  { profile }: ParentContext,
  { channels }: ClientResources,
  part: ChannelPart = {},
): Promise<StreamEntry[]> {
  const found: StreamEntry[] = [];
  for await (const entry of channels.unacked(profile.parent, part)) {
    found.push(entry);
    if (found.length === MAX_ENTRIES) break;
  }
  return found;
}

/**
 * Returns the entries as text for a model. Reads the agents that asked only after the entries: an agent whose question is open
 * then waits already.
 */
async function textOf(
  { read, store }: ClientResources,
  parent: ParentAddress,
  entries: readonly StreamEntry[],
): Promise<string> {
  const askers = new Set(entries.flatMap(({ uid, entry }) => (entry.kind === "question" ? [uid] : [])));
  const records = new Map<string, AgentRecord | undefined>();
  const readAsker = async (uid: string) => records.set(uid, await store.record(agentOf(parent, uid)));
  // Only a newer version can tell whether a question of its agent is open.
  const unlessUnreadable = (error: unknown) => {
    if (!isUnreadable(error)) throw error;
  };
  if (askers.size > 0)
    await read(() => Promise.all([...askers].map((uid) => readAsker(uid).catch(unlessUnreadable))));
  const closedWith = ({ uid, entry }: StreamEntry) =>
    entry.kind === "question" && records.has(uid) ? closedBy(entry, records.get(uid)) : undefined;
  return entries.map((item) => asData(item.entry, closedWith(item))).join("\n\n");
}

/** Returns the status of an agent that does not wait for the answer to a question; undefined if it waits. */
function closedBy({ question_id }: Question, asker: AgentRecord | undefined): AgentStatus | undefined {
  if (!asker) return "ended";
  const isOpen =
    asker.status === "waiting" && asker.questions?.some((open) => open.question_id === question_id);
  return isOpen ? undefined : asker.status;
}

function withAck(text: string, entries: readonly StreamEntry[], ack: () => Promise<unknown>): NewReplies {
  return {
    text,
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
