import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { ackReplies } from "../../../src/service/api/reply-read.ts";
import { OLDEST } from "../../../src/shared/protocol/reply.ts";
import { isReadable } from "../../../src/shared/redis/replies.ts";
import { openStage } from "../../stage/stage.ts";

/** With its reply and its instructions a record may have more than a megabyte. */
const MOST_AT_A_TIME = 10;

test("an ack of many replies asks Redis for a few of them at a time", async () => {
  const stage = await openStage();
  const client = stage.client();
  const parent = stage.parent("planner-7", { client });
  for (let n = 0; n < 2 * MOST_AT_A_TIME; n++) {
    const { agent_id } = await parent.spawn({ name: `writer-${n}` });
    await parent.destroy(agent_id);
  }
  const address = { tenant: "default", parentId: "planner-7" };
  const resources = await internalsOf(client).open();
  const ids = (await resources.replies.page(address, OLDEST, 100)).items
    .filter(isReadable)
    .map(({ entry }) => entry.reply_id);
  expect(ids).toHaveLength(2 * MOST_AT_A_TIME);
  /** Counts the calls of `work` that go on at a time. */
  const counted = () => {
    const count = { now: 0, most: 0 };
    const during = async <T>(work: Promise<T>): Promise<T> => {
      count.most = Math.max(count.most, ++count.now);
      try {
        return await work;
      } finally {
        count.now -= 1;
      }
    };
    return { count, during };
  };
  const [records, acks] = [counted(), counted()];
  const store = {
    ...resources.store,
    record: (...asked: Parameters<typeof resources.store.record>) =>
      records.during(resources.store.record(...asked)),
  };
  const channels: typeof resources.channels = {
    ...resources.channels,
    received(...which) {
      const entry = resources.channels.received(...which);
      return { ...entry, ack: () => acks.during(entry.ack()) };
    },
  };
  const { acked } = await ackReplies({ ...resources, store, channels }, address, ids);
  expect(acked.toSorted()).toEqual(ids.toSorted());
  for (const { count } of [records, acks]) {
    expect(count.most).toBeGreaterThan(0);
    expect(count.most).toBeLessThanOrEqual(MOST_AT_A_TIME);
  }
});
