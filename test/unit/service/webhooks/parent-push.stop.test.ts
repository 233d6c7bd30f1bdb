/** Guarantee: a stop ends a round also while it passes over entries that this version cannot read: none is sent, so none asks. */
import { expect, test } from "vitest";
import { type PushParts, pushParent } from "../../../../src/service/webhooks/parent-push.ts";
import { OLDEST } from "../../../../src/shared/protocol/reply.ts";
import { PageBounds } from "../../../../src/shared/redis/page-bounds.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const STOPPED_AFTER = 3;

test("no page is read after the stop", async () => {
  const stopping = new AbortController();
  let pages = 0;
  const page = async (_parent: unknown, after: string) => {
    pages += 1;
    if (pages === STOPPED_AFTER) stopping.abort();
    // A channel of such entries without an end, for a round that goes on, would be none of this test's.
    const isLast = pages > 2 * STOPPED_AFTER;
    return { items: [{ id: `${after}1`, uid: undefined, entry: { kind: "unreadable" } }], isLast, chars: 1 };
  };
  const parts = {
    open: {
      read: (ask: () => unknown) => ask(),
      ...{ clock: handClock(), redis: { time: async () => ["1", "0"] }, replies: { page } },
    },
    webhooks: { get: async () => ({ disabled: false, failures: 0, after: OLDEST, newest: OLDEST }) },
    ...{ bounds: new PageBounds(), signal: stopping.signal },
  };
  const parent = { tenant: "default", parentId: "planner-7" };
  const end = await pushParent(parts as unknown as PushParts, parent, () => true);
  expect([end.status, pages]).toEqual(["stopped", STOPPED_AFTER]);
});
