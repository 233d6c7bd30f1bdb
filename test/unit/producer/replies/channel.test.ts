import { describe, expect, test } from "vitest";
import { type Listener, OLDEST, PAGE_ENTRIES, replyFeed } from "../../../../src/producer/replies/channel.ts";
import { isBehind } from "../../../../src/shared/protocol/reply.ts";
import type { StreamEntry } from "../../../../src/shared/redis/replies.ts";
import { latch } from "../../../helpers/latch.ts";

function entry(id: string): StreamEntry {
  const head = { reply_id: id, parent_id: "p", agent_id: "a", name: "a", run: 1, created_at: "" };
  return { id, uid: "u", entry: { ...head, agent_status: "running", kind: "message", text: id } };
}

function streamOf(ids: string[]) {
  const asked: string[] = [];
  const read = async (after: string, count: number) => {
    asked.push(after);
    return ids
      .filter((id) => isBehind(after, id))
      .slice(0, count)
      .map(entry);
  };
  return { asked, read };
}

function listener(cursor = OLDEST, hungry = () => true): Listener & { seen: string[] } {
  const seen: string[] = [];
  return { cursor, hungry, seen, offer: ({ id }) => void seen.push(id) };
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
    await feed.look();
    await feed.look();
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
    await feed.look();
    expect(reader.seen).toEqual(ids);
    expect(asked).toHaveLength(3);
  });

  test("asks for nothing while nobody is hungry, and leaves out who left", async () => {
    const { asked, read } = streamOf(["1-0"]);
    const feed = replyFeed(read);
    const [full, gone] = [listener(OLDEST, () => false), listener()];
    feed.add(full);
    feed.add(gone);
    feed.remove(gone);
    await feed.look();
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
    await feed.look();
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
    const looks = [feed.look(), feed.look(), feed.look()];
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
    await expect(feed.look()).rejects.toThrow("away");
    expect(reader.cursor).toBe(OLDEST);
    away = false;
    await feed.look();
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
    const failing = feed.look();
    const next = feed.look();
    gate.open();
    await expect(failing).rejects.toThrow("away");
    await next;
    expect(reader.seen).toEqual(["1-0"]);
  });
});
