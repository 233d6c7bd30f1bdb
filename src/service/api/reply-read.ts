/**
 * A parent's channel as the API's clients read it: pages behind a cursor, waits for what comes, acks by id. It reserves
 * nothing and keeps nothing: every reader of every door sees each entry until it is acked.
 */

import type { OpenClient } from "../../producer/open-client.ts";
import { PAGE_ENTRIES } from "../../producer/replies/client-channels.ts";
import { listenToDoorbell } from "../../producer/subscriber.ts";
import type { ParentAddress } from "../../shared/protocol/keys.ts";
import { OLDEST } from "../../shared/protocol/reply.ts";
import { isReadable, type StreamEntry } from "../../shared/redis/replies.ts";

/** What stands behind `after`; `cursor` is behind all that was read, also behind what this version cannot read. */
export interface EntryPage {
  entries: StreamEntry[];
  cursor: string;
}

/** Up to `count` entries behind `after`. */
async function readPage(
  { call, replies }: OpenClient,
  parent: ParentAddress,
  after: string,
  count: number = PAGE_ENTRIES,
): Promise<EntryPage> {
  const items = await call(({ read }) => read(() => replies.read(parent, after, count)));
  return { entries: items.filter(isReadable), cursor: items.at(-1)?.id ?? after };
}

/** Like {@link readPage}; waits up to `waitMs` for the first entry. */
export async function waitForPage(
  client: OpenClient,
  parent: ParentAddress,
  after: string,
  { count, waitMs, signal }: { count: number; waitMs: number; signal: AbortSignal },
): Promise<EntryPage> {
  const bell = listenToDoorbell(client, parent, signal);
  const timer = client.clock.timeout(waitMs, bell.close);
  try {
    for (;;) {
      const rung = bell.next();
      const page = await readPage(client, parent, after, count);
      if (page.entries.length > 0 || bell.isClosed) return page;
      await rung;
    }
  } finally {
    timer.cancel();
    bell.close();
  }
}

/** Every unacked entry behind `after`, oldest first, then what comes, until `signal` aborts or the client stops. */
export async function* followReplies(
  client: OpenClient,
  parent: ParentAddress,
  after: string,
  signal: AbortSignal,
): AsyncGenerator<StreamEntry> {
  const bell = listenToDoorbell(client, parent, signal);
  let cursor = after;
  try {
    while (!bell.isClosed) {
      const rung = bell.next();
      const page = await readPage(client, parent, cursor).catch(() => undefined);
      if (page) cursor = page.cursor;
      yield* page?.entries ?? [];
      // A page that failed is read again at the next ring; the slow tick is one.
      if (!page || page.entries.length === 0) await rung;
    }
  } finally {
    bell.close();
  }
}

/** Takes entries out of the channel by their ids. */
export async function ackReplies(
  client: OpenClient,
  parent: ParentAddress,
  replyIds: readonly string[],
): Promise<{ acked: string[]; already: string[] }> {
  const wanted = new Set(replyIds);
  const acked: string[] = [];
  for (let after = OLDEST; wanted.size > 0; ) {
    const { entries, cursor } = await readPage(client, parent, after);
    const found = entries.filter(({ entry }) => wanted.delete(entry.reply_id));
    const firsts = await Promise.all(found.map((entry) => client.channels.received(parent, entry).ack()));
    acked.push(...found.filter((_, i) => firsts[i]).map(({ entry }) => entry.reply_id));
    if (cursor === after) break;
    after = cursor;
  }
  const taken = new Set(acked);
  return { acked, already: [...new Set(replyIds)].filter((id) => !taken.has(id)) };
}
