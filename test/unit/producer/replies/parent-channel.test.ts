import { describe, expect, test } from "vitest";
import { PAGE_ENTRIES, replyFeed } from "../../../../src/producer/replies/client-channels.ts";
import {
  type FinalEntry,
  type Listener,
  received,
  replyChannel,
  type Waiter,
} from "../../../../src/producer/replies/parent-channel.ts";
import { isBehind, OLDEST } from "../../../../src/shared/protocol/reply.ts";
import type { StreamEntry, StreamItem, StreamPage } from "../../../../src/shared/redis/replies.ts";
import { latch } from "../../../helpers/latch.ts";

function entry(id: string): StreamEntry {
  const head = { reply_id: id, parent_id: "p", agent_id: "a", name: "a", run: 1, created_at: "" };
  return { id, uid: "u", entry: { ...head, agent_status: "running", kind: "message", text: id } };
}

function pageOf(items: StreamItem[], count: number): StreamPage {
  return { items: items.slice(0, count), isLast: items.length < count };
}

function streamOf(ids: string[]) {
  const asked: string[] = [];
  const read = async (after: string, count: number) => {
    asked.push(after);
    return pageOf(ids.filter((id) => isBehind(after, id)).map(entry), count);
  };
  return { asked, read };
}

function listener(cursor = OLDEST, wantsEntries = () => true): Listener & { seen: string[] } {
  const seen: string[] = [];
  return { cursor, wantsEntries, seen, offer: ({ id }) => void seen.push(id) };
}

test("stream ids compare by time, then by sequence, as numbers", () => {
  expect(isBehind("9-0", "10-0")).toBe(true);
  expect(isBehind("10-9", "10-10")).toBe(true);
  expect(isBehind("10-10", "10-10")).toBe(false);
  expect(isBehind("11-0", "10-5")).toBe(false);
});

describe("a feed", () => {
  test("offers each listener what is behind its own cursor, once, in order, from one reading", async () => {
    const { asked, read } = streamOf(["1-0", "2-0", "3-0"]);
    const feed = replyFeed(read);
    const [all, late] = [listener(), listener("2-0")];
    feed.add(all);
    feed.add(late);
    await feed.readNew();
    await feed.readNew();
    expect([all.seen, late.seen]).toEqual([["1-0", "2-0", "3-0"], ["3-0"]]);
    expect(asked).toEqual([OLDEST, "3-0"]);
    expect(feed.newest).toBe("3-0");
  });

  test("reads page after page until there is no more", async () => {
    const ids = Array.from({ length: 2 * PAGE_ENTRIES + 1 }, (_, i) => `${i + 1}-0`);
    const { asked, read } = streamOf(ids);
    const feed = replyFeed(read);
    const reader = listener();
    feed.add(reader);
    await feed.readNew();
    expect(reader.seen).toEqual(ids);
    expect(asked).toHaveLength(3);
  });

  test("passes over what cannot be read, and does not come back to it", async () => {
    const unreadable: StreamItem = { id: "1-0", uid: "u", entry: { kind: "unreadable", reply_id: "r" } };
    const { asked, read } = streamOf(["2-0"]);
    const feed = replyFeed(async (after, count) => {
      const { items, isLast } = await read(after, count);
      return { items: isBehind(after, "1-0") ? [unreadable, ...items] : items, isLast };
    });
    const reader = listener();
    feed.add(reader);
    await feed.readNew();
    await feed.readNew();
    expect(reader.seen).toEqual(["2-0"]);
    expect(asked).toEqual([OLDEST, "2-0"]);
  });

  test("asks for nothing while no listener wants entries, and leaves out one that left", async () => {
    const { asked, read } = streamOf(["1-0"]);
    const feed = replyFeed(read);
    const [full, gone] = [listener(OLDEST, () => false), listener()];
    feed.add(full);
    feed.add(gone);
    feed.remove(gone);
    await feed.readNew();
    expect([asked, full.seen, gone.seen]).toEqual([[], [], []]);
  });

  test("offers nothing to a listener that leaves in the middle of a page", async () => {
    const feed = replyFeed(streamOf(["1-0", "2-0"]).read);
    const gone = listener();
    feed.add({
      ...listener(),
      offer: () => feed.remove(gone),
    });
    feed.add(gone);
    await feed.readNew();
    expect(gone.seen).toEqual([]);
  });

  test("a look asked for during a reading is made after it, once for all who asked", async () => {
    const ids = ["1-0"];
    const gate = latch();
    const { asked, read } = streamOf(ids);
    const feed = replyFeed(async (after, count) => {
      const page = await read(after, count);
      await gate.opened;
      return page;
    });
    const reader = listener();
    feed.add(reader);
    const looks = [feed.readNew(), feed.readNew(), feed.readNew()];
    ids.push("2-0");
    gate.open();
    await Promise.all(looks);
    expect(reader.seen).toEqual(["1-0", "2-0"]);
    expect(asked).toEqual([OLDEST, "1-0"]);
  });

  test("a failed reading rejects the look, moves no cursor, and the next one starts there", async () => {
    const { read } = streamOf(["1-0"]);
    let away = true;
    const feed = replyFeed((after, count) => (away ? Promise.reject(new Error("away")) : read(after, count)));
    const reader = listener();
    feed.add(reader);
    await expect(feed.readNew()).rejects.toThrow("away");
    expect(reader.cursor).toBe(OLDEST);
    away = false;
    await feed.readNew();
    expect(reader.seen).toEqual(["1-0"]);
  });

  test("a failed reading does not fail the look that was asked for meanwhile", async () => {
    const { read } = streamOf(["1-0"]);
    const gate = latch();
    let away = true;
    const feed = replyFeed(async (after, count) => {
      if (!away) return read(after, count);
      await gate.opened;
      away = false;
      throw new Error("away");
    });
    const reader = listener();
    feed.add(reader);
    const failing = feed.readNew();
    const next = feed.readNew();
    gate.open();
    await expect(failing).rejects.toThrow("away");
    await next;
    expect(reader.seen).toEqual(["1-0"]);
  });
});

/** The final reply of a run, as it stands in the stream. */
function reply(id: string, uid = "u", run = 1, agent_status: "idle" | "ended" = "ended"): StreamEntry {
  const { entry: head } = entry(id);
  const spent = { turns: 1, tokens: 0, cost_usd: 0, duration_ms: 0, tools_called: {}, undelivered: [] };
  const body = { summary: id, truncated: false, status: "succeeded", stop_reason: "end_turn", ...spent };
  return { id, uid, entry: { ...head, ...body, kind: "reply", run, agent_status } as StreamEntry["entry"] };
}

function question(id: string, uid: string): StreamEntry {
  const asked = { kind: "question", question_id: id, summary: id, answer_by: "" };
  return { id, uid, entry: { ...entry(id).entry, ...asked } as unknown as StreamEntry["entry"] };
}

/** A channel over a stream that the test writes; what it asked for stands in `checked` and `left`. */
function channelOver(entries: StreamEntry[]) {
  let reads = 0;
  const feed = replyFeed(async (after, count) => {
    reads += 1;
    return pageOf(
      entries.filter(({ id }) => isBehind(after, id)),
      count,
    );
  });
  const checked: Waiter[] = [];
  const acked: string[] = [];
  const ack = async ({ id }: StreamEntry) => {
    const isFirst = !acked.includes(id);
    acked.push(id);
    return isFirst;
  };
  const channel = replyChannel({
    feed,
    ack,
    readNew: () => void feed.readNew(),
    check: (waiter) => void checked.push(waiter),
  });
  const seen: string[] = [];
  const reader = channel.read({});
  const reading = (async () => {
    for await (const { summary } of reader as AsyncIterable<{ summary: string }>) seen.push(summary);
  })();
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  return { feed, channel, checked, seen, reading, settled, acked, reads: () => reads };
}

describe("an entry in a reader's hands", () => {
  test("is acked by one of two acks at the same time", async () => {
    const handle = received(entry("1-0"), async () => true);
    expect(await Promise.all([handle.ack(), handle.ack()])).toEqual([true, false]);
  });

  test("is acked with the same token again when an ack got no answer", async () => {
    const tokens: string[] = [];
    const handle = received(entry("1-0"), async (_entry, token) => {
      tokens.push(token);
      if (tokens.length === 1) throw new Error("no answer");
      return true;
    });
    await expect(handle.ack()).rejects.toThrow("no answer");
    expect(await handle.ack()).toBe(true);
    expect(tokens[1]).toBe(tokens[0]);
  });
});

describe("a channel", () => {
  test("keeps the reply of a reserved agent from its readers until the reservation ends untaken", async () => {
    const { feed, channel, seen, settled } = channelOver([
      reply("1-0", "a"),
      reply("2-0", "b"),
      reply("3-0", "c"),
    ]);
    const [kept, taken] = [channel.reserve("a"), channel.reserve("b")];
    await feed.readNew();
    await settled();
    expect(seen).toEqual(["3-0"]);
    kept.release(false);
    taken.release(reply("2-0", "b") as FinalEntry);
    await settled();
    expect(seen).toEqual(["3-0", "1-0"]);
  });

  test("keeps it as long as one of two reservations stands, however often the other one is released", async () => {
    const { feed, channel, seen, settled } = channelOver([reply("1-0")]);
    const [first, second] = [channel.reserve("u"), channel.reserve("u")];
    await feed.readNew();
    first.release(false);
    first.release(false);
    await settled();
    expect(seen).toEqual([]);
    second.release(false);
    await settled();
    expect(seen).toEqual(["1-0"]);
  });

  test("keeps only the awaited run from a reader: the reply of an earlier run comes out when the wait begins", async () => {
    const entries = [reply("1-0", "u", 1, "idle"), reply("2-0", "u", 2, "idle")];
    const { feed, channel, seen, settled } = channelOver(entries);
    const reservation = channel.reserve("u");
    await feed.readNew();
    await settled();
    expect(seen).toEqual([]);
    void reservation.wait(2, "only_if_unacked");
    await settled();
    expect(seen).toEqual(["1-0"]);
    entries.push(reply("3-0", "u", 3, "idle"), reply("4-0", "u", 4, "ended"));
    await feed.readNew();
    await settled();
    expect(seen).toEqual(["1-0", "3-0"]);
  });

  test("loses nothing but what a waiter has acked, whichever of two waiters is released last", async () => {
    const entries = [1, 2, 3].map((run) => reply(`${run}-0`, "u", run, "idle") as FinalEntry);
    const { feed, channel, seen, settled } = channelOver(entries);
    const [first, second] = [channel.reserve("u"), channel.reserve("u")];
    await feed.readNew();
    await settled();
    first.release(entries[1] ?? false);
    second.release(false);
    await settled();
    expect(seen).toEqual(["1-0", "3-0"]);
    const again = channel.reserve("u");
    entries.push(...[4, 5].map((run) => reply(`${run}-0`, "u", run, "idle") as FinalEntry));
    await feed.readNew();
    await settled();
    again.release(entries[3] ?? false);
    await settled();
    expect(seen).toEqual(["1-0", "3-0", "5-0"]);
  });

  test("keeps the questions that its waiter answers, and shows them only if the wait took no reply", async () => {
    const entries: StreamEntry[] = [question("1-0", "a"), question("2-0", "b"), reply("3-0", "b")];
    const { feed, channel, seen, settled } = channelOver(entries);
    const [left, taken] = ["a", "b"].map((uid) => channel.reserve(uid, () => {}));
    await feed.readNew();
    await settled();
    expect(seen).toEqual([]);
    taken?.release(reply("3-0", "b") as FinalEntry);
    left?.release(false);
    await settled();
    expect(seen).toEqual(["1-0"]);
  });

  test("gives a reader page after page, each when the one before has been read", async () => {
    const ids = Array.from({ length: 2 * PAGE_ENTRIES + 1 }, (_, i) => `${i + 1}-0`);
    const { channel, seen, reading, settled } = channelOver(ids.map((id) => reply(id)));
    for (let turn = 0; turn < 100 && seen.length < ids.length; turn++) await settled();
    expect(seen).toEqual(ids);
    channel.stop(new Error("over"));
    await reading;
  });

  test("finds for a waiter what came between its reservation and its wait", async () => {
    const entries: StreamEntry[] = [];
    const { feed, channel } = channelOver(entries);
    const reservation = channel.reserve("u");
    entries.push(reply("5-0"));
    await feed.readNew();
    expect(await reservation.wait(1, { spawnedAtMs: 1 })).toMatchObject({ id: "5-0" });
  });

  test("reads nothing for a waiter if there was no sign of an entry since the reservation", async () => {
    const { feed, channel, settled, reads } = channelOver([]);
    await feed.readNew();
    const before = reads();
    const waited = channel.reserve("u").wait(1, { spawnedAtMs: 1 });
    await settled();
    expect(reads()).toBe(before);
    channel.offer(reply("5-0"));
    expect(await waited).toMatchObject({ id: "5-0" });
  });

  test("is unused as soon as its last reader has ended and its last reservation is released", async () => {
    const { channel, reading, settled } = channelOver([]);
    const reservation = channel.reserve("u");
    const reader = channel.read({});
    channel.stop(new Error("over"));
    await reading;
    reader.end();
    await settled();
    expect(channel.isUnused).toBe(false);
    reservation.release(reply("1-0") as FinalEntry);
    expect(channel.isUnused).toBe(true);
  });

  test("takes the reply out of a ring only when nobody can have acked it before the wait", async () => {
    const { channel, checked } = channelOver([]);
    const late = reply("5-0") as FinalEntry;
    const waited = channel.reserve("u").wait(1, "only_if_unacked");
    expect(channel.offer(late)).toBe(false);
    expect(channel.waiters.size).toBe(1);
    for (const waiter of checked) waiter.mayTakeCopy = true;
    channel.offer(late);
    expect(await waited).toBe(late);
    const acked = channel.reserve("u").wait(1, "even_if_acked");
    channel.offer(late);
    expect(await acked).toBe(late);
  });

  test("ends a wait for a later run with the end of its agent, and not with an earlier run's reply", async () => {
    const entries = [reply("5-0", "u", 1, "idle")];
    const { feed, channel } = channelOver(entries);
    const waited = channel.reserve("u").wait(3, { spawnedAtMs: 1 });
    await feed.readNew();
    entries.push(reply("6-0", "u", 2, "ended"));
    await feed.readNew();
    expect(await waited).toMatchObject({ id: "6-0" });
  });

  test("asks where the reply of an agent is that was there before the wait", async () => {
    const { channel, checked } = channelOver([]);
    const reservation = channel.reserve("u");
    const waited = reservation.wait(1, "only_if_unacked");
    expect(checked).toMatchObject([{ uid: "u", run: 1 }]);
    reservation.cancel(new Error("enough"));
    await expect(waited).rejects.toThrow("enough");
  });

  test("that stops ends its readers and its waiters", async () => {
    const { channel, reading } = channelOver([]);
    const waited = channel.reserve("u").wait(1, "only_if_unacked");
    channel.stop(new Error("over"));
    await expect(waited).rejects.toThrow("over");
    await reading;
  });

  test("that was stopped ends whoever reads or waits only then", async () => {
    const { channel } = channelOver([reply("5-0")]);
    const reservation = channel.reserve("u");
    channel.stop(new Error("over"));
    await expect(reservation.wait(1, "even_if_acked")).rejects.toThrow("over");
    await expect(channel.reserve("u").wait(1, { spawnedAtMs: 1 })).rejects.toThrow("over");
    expect(await channel.read({}).next()).toEqual({ done: true, value: undefined });
    expect(channel.waiters.size).toBe(0);
  });
});
