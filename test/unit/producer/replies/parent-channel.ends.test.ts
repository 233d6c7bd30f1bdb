/** Guarantee: a wait or a reader that is over leaves nothing in its channel and its feed. */
import { expect, test } from "vitest";
import { type Listener, replyChannel } from "../../../../src/producer/replies/parent-channel.ts";
import { OLDEST } from "../../../../src/shared/protocol/reply.ts";
import type { StreamEntry } from "../../../../src/shared/redis/replies.ts";

function scene() {
  const listeners = new Set<Listener>();
  const feed = {
    add: (listener: Listener) => void listeners.add(listener),
    remove: (listener: Listener) => void listeners.delete(listener),
    readNew: async () => {},
    requests: 0,
    newest: OLDEST,
  };
  const channel = replyChannel({ feed, ack: async () => true, readNew: () => {}, check: () => {} });
  return { channel, listeners };
}

const END = {
  id: "5-0",
  uid: "u",
  entry: { kind: "ended", reply_id: "u.1", run: 1, agent_status: "ended" },
} as StreamEntry;

test("a wait leaves the feed with its reply, and when it is cancelled", async () => {
  const { channel, listeners } = scene();
  const got = channel.reserve("u");
  const reply = got.wait(1, { spawnedAtMs: 1 });
  const cancelled = channel.reserve("u");
  const nothing = cancelled.wait(1, { spawnedAtMs: 1 });
  expect(listeners.size).toBe(2);
  cancelled.cancel("enough");
  cancelled.cancel("too much");
  await expect(nothing).rejects.toBe("enough");
  await expect(cancelled.wait(1, { spawnedAtMs: 1 })).rejects.toBe("enough");
  expect(listeners.size).toBe(1);
  for (const listener of listeners) listener.offer(END);
  expect((await reply).id).toBe("5-0");
  expect([listeners.size, channel.waiters.size]).toEqual([0, 0]);
  got.release(false);
  cancelled.release(false);
  expect(channel.isUnused).toBe(true);
});

test("a reader leaves the feed and the channel when it ends, also one of a channel that was stopped before", async () => {
  const { channel, listeners } = scene();
  const reader = channel.read({});
  expect([listeners.size, channel.isUnused]).toEqual([1, false]);
  reader.end();
  await Promise.resolve();
  expect([listeners.size, channel.isUnused]).toEqual([0, true]);
  channel.stop("stopped");
  expect(await channel.read({}).next()).toEqual({ done: true, value: undefined });
  await Promise.resolve();
  expect([listeners.size, channel.isUnused]).toEqual([0, true]);
});
