/** Guarantee: a wait that is looked for again and again has one listener, and one that is over while it is looked for has none. */
import { expect, test } from "vitest";
import { type Listener, replyChannel, type Waiter } from "../../../../src/producer/replies/parent-channel.ts";
import { OLDEST } from "../../../../src/shared/protocol/reply.ts";

function scene() {
  const listeners = new Set<Listener>();
  const looks: Waiter[] = [];
  const feed = {
    add: (listener: Listener) => void listeners.add(listener),
    remove: (listener: Listener) => void listeners.delete(listener),
    readNew: async () => {},
    requests: 0,
    newest: OLDEST,
  };
  const check = (waiter: Waiter) => void looks.push(waiter);
  const channel = replyChannel({ feed, ack: async () => true, readNew: () => {}, check });
  const reservation = channel.reserve("u");
  const reply = reservation.wait(1, "even_if_acked");
  return { listeners, looks, reservation, reply };
}

test("a wait listens once, and no more when it is over", async () => {
  const { listeners, looks, reservation, reply } = scene();
  for (const waiter of [...looks, ...looks]) waiter.listen(OLDEST);
  expect(listeners.size).toBe(1);
  reservation.cancel("enough");
  await expect(reply).rejects.toBe("enough");
  expect(listeners.size).toBe(0);
});

test("a wait that was cancelled during the first look for its reply does not listen", async () => {
  const { listeners, looks, reservation, reply } = scene();
  reservation.cancel("enough");
  await expect(reply).rejects.toBe("enough");
  for (const waiter of looks) waiter.listen(OLDEST);
  expect([looks.length, listeners.size]).toEqual([1, 0]);
});
