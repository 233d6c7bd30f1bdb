/** Guarantee: a read of the stream that began before a waiter acked its reply brings the reply to no reader. */
import { expect, test } from "vitest";
import { replyFeed } from "../../../../src/producer/replies/client-channels.ts";
import { type FinalEntry, replyChannel } from "../../../../src/producer/replies/parent-channel.ts";
import type { StreamEntry, StreamPage } from "../../../../src/shared/redis/replies.ts";
import { latch } from "../../../helpers/latch.ts";

const replyOf = (uid: string, id: string) =>
  ({ id, uid, entry: { kind: "reply", reply_id: `${uid}.1`, run: 1, agent_status: "ended" } }) as FinalEntry;
const question = {
  id: "4-0",
  uid: "u",
  entry: { kind: "question", reply_id: "u.1/a", run: 1 },
} as StreamEntry;
const [awaited, other] = [replyOf("u", "5-0"), replyOf("v", "6-0")];

/** A channel whose one read takes until `page` is open. */
function slowChannel() {
  const page = latch<StreamPage>();
  const feed = replyFeed(() => page.opened);
  const readNew = () => void feed.readNew();
  return { page, channel: replyChannel({ feed, ack: async () => true, readNew, check: () => {} }) };
}

test("a reply that its waiter took and acked, and the question that it answered, are not read again", async () => {
  const { page, channel } = slowChannel();
  const reader = channel.read({});
  const next = reader.next();
  const reservation = channel.reserve("u", () => {});
  const reply = reservation.wait(1, "even_if_acked");
  channel.offer(awaited);
  reservation.release(await reply);
  page.open({ items: [question, awaited, other], isLast: true });
  expect((await next).value).toMatchObject({ reply_id: "v.1" });
  expect(channel.isReserved(awaited)).toBe(true);
});

test("a reply whose ack failed, and a question that nobody answered, are read", async () => {
  const { page, channel } = slowChannel();
  const reader = channel.read({});
  const next = reader.next();
  const [failed, plain] = [channel.reserve("u"), channel.reserve("v")];
  void failed.wait(1, "even_if_acked");
  const reply = plain.wait(1, "even_if_acked");
  channel.offer(awaited);
  channel.offer(other);
  failed.release(false);
  plain.release(await reply);
  const asked = { ...question, uid: "v" };
  page.open({ items: [asked, awaited, other, replyOf("w", "7-0")], isLast: true });
  const seen = [(await next).value, (await reader.next()).value, (await reader.next()).value];
  expect(seen.map((entry) => entry?.reply_id)).toEqual(["u.1/a", "u.1", "w.1"]);
});

test("of what is over the newest thousand are remembered", () => {
  const { channel } = slowChannel();
  const takeAll = (from: number, to: number) => {
    for (let i = from; i <= to; i += 1) channel.reserve("u").release(replyOf("u", `${i}-0`));
  };
  takeAll(1, 1_000);
  expect(channel.isReserved(replyOf("u", "1-0"))).toBe(true);
  takeAll(1_001, 1_001);
  expect(["1-0", "2-0", "1001-0"].map((id) => channel.isReserved(replyOf("u", id)))).toEqual([
    false,
    true,
    true,
  ]);
});
