/** What a ring with a final reply means for a channel that has readers. */
import { expect, test } from "vitest";
import { replyFeed } from "../../../../src/producer/replies/client-channels.ts";
import { replyChannel } from "../../../../src/producer/replies/parent-channel.ts";
import type { StreamEntry } from "../../../../src/shared/redis/replies.ts";

const ended = {
  id: "5-0",
  uid: "u",
  entry: { kind: "reply", reply_id: "u.1", run: 1, agent_status: "ended" },
} as StreamEntry;

test("a ring that a waiter took is served only if no reader needs its entry, too", async () => {
  const feed = replyFeed(async () => ({ items: [], isLast: true }));
  const ack = async () => true;
  const channel = replyChannel({ feed, ack, readNew: () => {}, check: () => {} });
  const reader = channel.read({});
  const first = channel.reserve("u");
  const beside = first.wait(1, "even_if_acked");
  expect(channel.offer(ended)).toBe(false);
  expect(await beside).toBe(ended);
  reader.end();
  await Promise.resolve();
  const alone = channel.reserve("u").wait(1, "even_if_acked");
  expect(channel.offer(ended)).toBe(true);
  expect(await alone).toBe(ended);
});
