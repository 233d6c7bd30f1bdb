/** Guarantee: a round that cannot read on waits for the requests under way, so that the next one does not send them a second time. */
import { expect, test } from "vitest";
import { type PushParts, pushParent } from "../../../../src/service/webhooks/parent-push.ts";
import { OLDEST } from "../../../../src/shared/protocol/reply.ts";
import { PageBounds } from "../../../../src/shared/redis/page-bounds.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { latch } from "../../../helpers/latch.ts";

test("a page that cannot be read breaks a round off when its requests are answered", async () => {
  const [failed, answered] = [latch(), latch()];
  const acked: string[] = [];
  const entry = (n: number) => ({ id: `1-${n}`, uid: "", entry: { kind: "reply", reply_id: `r${n}` } });
  const page = async (_parent: unknown, after: string) => {
    if (after === OLDEST) return { items: [entry(1), entry(2)], isLast: false, chars: 1 };
    failed.open();
    throw new RangeError("Redis is away");
  };
  const parts = {
    open: {
      read: (ask: () => unknown) => ask(),
      channels: { tryAck: async (_parent: unknown, { id }: { id: string }) => acked.push(id) },
      ...{ clock: handClock(), redis: { time: async () => ["1", "0"] }, replies: { page } },
    },
    sender: { send: () => answered.opened.then(() => ({ status: "taken" })) },
    webhooks: { get: async () => ({ disabled: false, failures: 0, after: OLDEST, newest: OLDEST }) },
    ...{ bounds: new PageBounds(), signal: new AbortController().signal, onAnswer: () => {} },
  };
  const parent = { tenant: "default", parentId: "planner-7" };
  let isOver = false;
  const round = pushParent(parts as unknown as PushParts, parent, () => true).finally(() => {
    isOver = true;
  });
  const broken = expect(round).rejects.toThrow("Redis is away");
  await failed.opened;
  await new Promise(setImmediate);
  expect(isOver).toBe(false);
  answered.open();
  await broken;
  expect(acked).toEqual(["1-1", "1-2"]);
});
