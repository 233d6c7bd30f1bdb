/**
 * A parent's channel for the API's clients: pages after a cursor, waits for new entries, acks by id. It reserves and stores
 * nothing: every reader of every interface sees each entry until it is acked.
 *
 * 1. An entry that this version cannot read does not block the entries after it.
 * 2. An ack reads at most {@link MOST_PAGES} pages of the channel, for any ids.
 */

import type { ClientResources } from "../../producer/client-resources.ts";
import { PAGE_ENTRIES } from "../../producer/replies/client-channels.ts";
import { cursorAt } from "../../producer/replies/parent-channel.ts";
import { listenToDoorbell } from "../../producer/subscriber.ts";
import { SubagentError } from "../../shared/errors.ts";
import { Uid } from "../../shared/protocol/ids.ts";
import { agentOf, type ParentAddress } from "../../shared/protocol/keys.ts";
import { isBehind, OLDEST } from "../../shared/protocol/reply.ts";
import { type HeldPage, PageBounds } from "../../shared/redis/page-bounds.ts";
import { isReadable, keptReply, type StreamEntry, type StreamPage } from "../../shared/redis/replies.ts";

/** Acks sent at a time: for one whose agent has a reply of a megabyte, Redis takes some milliseconds. */
const ACKS_AT_A_TIME = 8;
/** Maximum pages read to find entries whose position no record has. */
const MOST_PAGES = 10;

/**
 * Entries after `after`. `cursor`: after all entries read, including those that this version cannot read. `isLast`: no
 * entry followed.
 */
export interface EntryPage {
  entries: StreamEntry[];
  cursor: string;
  isLast: boolean;
}

/** Reads and channels with which pages are read; after the abort of `signal` no page is read, and it counts as empty. */
interface PageSource extends Pick<ClientResources, "read" | "replies"> {
  readonly signal?: AbortSignal;
}

/** Returns the source of pages that are read in the tenant's line. */
function inLine(client: ClientResources, { tenant }: ParentAddress, signal?: AbortSignal): PageSource {
  return { read: client.singlePageLineOf(tenant), replies: client.replies, ...(signal && { signal }) };
}

/** Reads up to `count` entries after `after`. */
async function readPage(
  { read, replies, signal }: PageSource,
  parent: ParentAddress,
  after: string,
  count: number = PAGE_ENTRIES,
): Promise<EntryPage> {
  const { items, isLast } = await read(async () =>
    signal?.aborted ? NO_PAGE : replies.page(parent, after, count),
  );
  return { entries: items.filter(isReadable), cursor: items.at(-1)?.id ?? after, isLast };
}

const NO_PAGE: StreamPage = { items: [], isLast: true };

/** Returns the first page after `after` with a readable entry; waits for it up to `waitMs`. */
export async function waitForPage(
  client: ClientResources,
  parent: ParentAddress,
  after: string,
  { count, waitMs, signal }: { count: number; waitMs: number; signal: AbortSignal },
): Promise<EntryPage> {
  const bell = listenToDoorbell(client, parent, signal);
  const timer = client.clock.timeout(waitMs, bell.close);
  const source = inLine(client, parent, signal);
  try {
    for (let cursor = after; ; ) {
      const rung = bell.next();
      const page = await readPage(source, parent, cursor, count);
      if (page.entries.length > 0 || signal.aborted) return page;
      if (page.isLast && bell.isClosed) return page;
      if (page.isLast) await rung;
      cursor = page.cursor;
    }
  } finally {
    timer.cancel();
    bell.close();
  }
}

/** Pages of the readers that follow a channel: a client that reads slowly keeps what is left of one in this process. */
const followed = new PageBounds();

/** Yields every unacked entry after `after`, oldest first, then new ones, until `signal` aborts or the client stops. */
export async function* followReplies(
  client: ClientResources,
  parent: ParentAddress,
  after: string,
  signal: AbortSignal,
): AsyncGenerator<StreamEntry> {
  const { read, replies } = client;
  const bell = listenToDoorbell(client, parent, signal);
  let cursor = after;
  const readNext = () => read(() => replies.page(parent, cursor, PAGE_ENTRIES));
  try {
    while (!bell.isClosed) {
      const rung = bell.next();
      const page = await followed.read(parent.tenant, readNext, signal).catch(() => undefined);
      cursor = page?.lastId ?? cursor;
      if (page) yield* heldEntries(page);
      // A failed page is read again at the next ring or slow tick.
      if (!page || page.isLast) await rung;
    }
  } finally {
    bell.close();
  }
}

/** Yields the entries of a page, and releases each when the next one is asked for, or none any more. */
function* heldEntries({ entries, release }: HeldPage): Generator<StreamEntry> {
  let released = 0;
  try {
    for (const entry of entries) {
      yield entry;
      released += 1;
      release();
    }
  } finally {
    for (; released < entries.length; released += 1) release();
  }
}

/** The outcome of each id: acked now; acked earlier or gone (`already`); not among the searched entries (`not_reached`). */
interface AckOutcome {
  acked: string[];
  already: string[];
  not_reached?: string[];
}

/** Acks entries by their ids. Rejects as one ack does, but with `outcome_unknown` if only some of several acks failed. */
export async function ackReplies(
  client: ClientResources,
  parent: ParentAddress,
  replyIds: readonly string[],
): Promise<AckOutcome> {
  const ids = new Set(replyIds);
  const { entries, notReached } = await findEntries(client, parent, ids);
  const firsts = await ackAll(client, parent, entries);
  const acked = entries.filter((_, i) => firsts[i]).map(({ entry }) => entry.reply_id);
  for (const id of [...acked, ...notReached]) ids.delete(id);
  return { acked, already: [...ids], ...(notReached.length > 0 && { not_reached: notReached }) };
}

/** Acks each entry; true for those that no earlier ack has removed. Stops where one is not answered. */
async function ackAll(
  { channels }: ClientResources,
  parent: ParentAddress,
  entries: readonly StreamEntry[],
): Promise<boolean[]> {
  const firsts: boolean[] = [];
  for (let from = 0; from < entries.length; from += ACKS_AT_A_TIME) {
    const some = entries.slice(from, from + ACKS_AT_A_TIME);
    const outcomes = await Promise.allSettled(some.map((entry) => channels.received(parent, entry).ack()));
    const failures = outcomes.flatMap((each): unknown[] => (each.status === "rejected" ? [each.reason] : []));
    const isNoneAcked = from === 0 && failures.length === some.length && !failures.some(isUnknown);
    if (failures.length > 0) throw failureOf(failures[0], isNoneAcked || entries.length === 1);
    firsts.push(...outcomes.map((each) => each.status === "fulfilled" && each.value));
  }
  return firsts;
}

/** Returns the failure of an ack; `isWhole`: it says that nothing was done, or names the one entry of its request. */
function failureOf(failure: unknown, isWhole: boolean): unknown {
  if (isWhole) return failure;
  const sentence =
    "Redis did not answer every ack, so it is unknown which of these entries were acked: the same call is safe; `already` then has them.";
  return new SubagentError("outcome_unknown", sentence, {}, failure);
}

function isUnknown(error: unknown): boolean {
  return error instanceof SubagentError && error.code === "outcome_unknown";
}

/** Facts from an agent's record: the entry of its last run's reply, and the cursor after which its other entries are. */
interface AgentPosition {
  kept: StreamEntry | undefined;
  from: string;
}

/** An id, and the cursor after which its entry is, if it exists. */
interface Sought {
  id: string;
  from: string;
}

/**
 * Finds the entries of ids that may still be in the channel. An id begins with the uid of its agent, and the agent's record
 * gives most entries. The channel is searched for replies of earlier runs, messages, questions, and entries of agents whose
 * records are gone.
 */
async function findEntries(
  client: ClientResources,
  parent: ParentAddress,
  ids: ReadonlySet<string>,
): Promise<{ entries: StreamEntry[]; notReached: string[] }> {
  const agents = await whereabouts(client, parent, ids);
  const entries: StreamEntry[] = [];
  const sought: Sought[] = [];
  for (const id of ids) {
    const uid = uidIn(id);
    if (uid === undefined) continue;
    const { kept, from } = agents.get(uid) ?? { kept: undefined, from: OLDEST };
    if (kept?.entry.reply_id === id) entries.push(kept);
    else sought.push({ id, from });
  }
  const { found, notReached } = await search(client, parent, await withoutAcked(client, parent, sought));
  return { entries: [...entries, ...found], notReached };
}

function uidIn(replyId: string): string | undefined {
  return Uid.safeParse(replyId.split(".")[0]).data;
}

/** Reads the whereabouts by uid; omits agents whose records are gone or cannot be read by this version. */
async function whereabouts(
  { singlePageLineOf, store }: ClientResources,
  parent: ParentAddress,
  ids: ReadonlySet<string>,
): Promise<ReadonlyMap<string, AgentPosition>> {
  const read = singlePageLineOf(parent.tenant);
  const found = new Map<string, AgentPosition>();
  const find = async (uid: string) => {
    const record = await store.record(agentOf(parent, uid));
    if (record) found.set(uid, { kept: keptReply(record), from: cursorAt(record.created_at) });
  };
  const uids = new Set([...ids].map(uidIn).filter((uid) => uid !== undefined));
  // In the tenant's line: with its reply and its instructions a record may have more than a megabyte.
  await Promise.all([...uids].map((uid) => read(() => find(uid)).catch(unlessUnreadable)));
  return found;
}

function unlessUnreadable(error: unknown): void {
  if (!(error instanceof SubagentError && error.code === "protocol_violation")) throw error;
}

/** Returns the ids without those that an earlier ack has removed, if Redis still remembers that ack. */
async function withoutAcked(
  { read, redis, keys }: ClientResources,
  parent: ParentAddress,
  sought: readonly Sought[],
): Promise<Sought[]> {
  const channel = keys.parent(parent);
  const acked = await read(() => Promise.all(sought.map(({ id }) => redis.exists(channel.ack(id)))));
  return sought.filter((_, i) => acked[i] === 0);
}

/** The entries found in a channel, and the ids that the search did not reach. */
interface Found {
  found: StreamEntry[];
  notReached: string[];
}

/** Searches first for ids with a known start, so that an id without one takes no page from them. */
async function search(
  client: ClientResources,
  parent: ParentAddress,
  sought: readonly Sought[],
): Promise<Found> {
  const placed = sought.filter(({ from }) => from !== OLDEST);
  const others = sought.filter(({ from }) => from === OLDEST);
  const first = await searchFrom(client, parent, placed, MOST_PAGES);
  const second = await searchFrom(client, parent, others, MOST_PAGES - first.pages);
  return {
    found: [...first.found, ...second.found],
    notReached: [...first.notReached, ...second.notReached],
  };
}

/** Reads at most `most` pages of the channel, from the earliest cursor of the ids. */
async function searchFrom(
  client: ClientResources,
  parent: ParentAddress,
  sought: readonly Sought[],
  most: number,
): Promise<Found & { pages: number }> {
  const wanted = new Set(sought.map(({ id }) => id));
  const found: StreamEntry[] = [];
  const froms = sought.map(({ from }) => from);
  let after = froms.reduce((a, b) => (isBehind(a, b) ? a : b), froms[0] ?? OLDEST);
  const source = inLine(client, parent);
  let pages = 0;
  for (; wanted.size > 0 && pages < most; pages++) {
    const { entries, cursor, isLast } = await readPage(source, parent, after);
    found.push(...entries.filter(({ entry }) => wanted.delete(entry.reply_id)));
    if (isLast) return { found, notReached: [], pages: pages + 1 };
    after = cursor;
  }
  return { found, notReached: [...wanted], pages };
}
