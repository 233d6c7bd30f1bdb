/** Guarantee: a stop ends also the rounds that wait for their tenant's turn, however long the pages before theirs take. */
import { expect, test } from "vitest";
import { type PushParts, pushParent } from "../../../../src/service/webhooks/parent-push.ts";
import { OLDEST } from "../../../../src/shared/protocol/reply.ts";
import { PageBounds } from "../../../../src/shared/redis/page-bounds.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

test("a round that waits behind pages which Redis does not answer reads none after the stop", async () => {
  const stopping = new AbortController();
  const bounds = new PageBounds();
  for (let n = 0; n < 2; n += 1) void bounds.read("default", () => new Promise(() => {}));
  const parts = {
    open: {
      read: (ask: () => unknown) => ask(),
      ...{ clock: handClock(), redis: { time: async () => ["1", "0"] } },
      replies: { page: () => expect.unreachable() },
    },
    webhooks: { get: async () => ({ disabled: false, failures: 0, after: OLDEST, newest: OLDEST }) },
    ...{ bounds, signal: stopping.signal },
  };
  const parent = { tenant: "default", parentId: "planner-7" };
  const round = pushParent(parts as unknown as PushParts, parent, () => true);
  await new Promise(setImmediate);
  stopping.abort();
  expect((await round).status).toBe("stopped");
});
