/** Guarantee: clients that follow a channel and read slowly keep a bounded part of one tenant's entries in this process. */
import { expect, test } from "vitest";
import type { ClientResources } from "../../../../src/producer/client-resources.ts";
import { followReplies } from "../../../../src/service/api/reply-read.ts";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { OLDEST } from "../../../../src/shared/protocol/reply.ts";

/** More than a tenant may hold. */
const PAGE_CHARS = 70 * 1_024 * 1_024;
const PARENT = { tenant: "acme", parentId: "planner-7" };

/** A client of a channel with one page of two entries, and the number of its reads so far. */
function channel() {
  const pages = { read: 0 };
  const page = async (_parent: unknown, after: string) => {
    if (after !== OLDEST) return { items: [], isLast: true, chars: 0 };
    pages.read += 1;
    const items = [1, 2].map((n) => ({ id: `1-${n}`, uid: "", entry: { kind: "reply", reply_id: `r${n}` } }));
    return { items, isLast: true, chars: PAGE_CHARS };
  };
  const client = {
    read: (ask: () => unknown) => ask(),
    ...{ replies: { page }, keys: keysUnder(), subscriber: { watch: () => () => {} } },
  };
  return { pages, client: client as unknown as ClientResources };
}

const settled = () => new Promise(setImmediate);

test("a page is read for another reader when the slow ones have taken theirs, or have left", async () => {
  const { client, pages } = channel();
  const follow = (signal = new AbortController().signal) => followReplies(client, PARENT, OLDEST, signal);
  const leaving = new AbortController();
  const [slow, gone, third] = [follow(), follow(leaving.signal), follow()];
  const first = await Promise.all([slow.next(), gone.next()]);
  expect(first.map(({ value }) => value?.id)).toEqual(["1-1", "1-1"]);
  const waiting = third.next();
  leaving.abort();
  await gone.return(undefined);
  expect((await slow.next()).value?.id).toBe("1-2");
  await settled();
  expect(pages.read).toBe(2);
  void slow.next();
  expect((await waiting).value?.id).toBe("1-1");
  expect(pages.read).toBe(3);
  await third.return(undefined);
});
