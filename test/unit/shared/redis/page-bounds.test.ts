/** Bounds of what receivers and readers hold of one tenant: pages begin in turn, and only while the tenant has room for them. */
import { expect, test } from "vitest";
import { PageBounds } from "../../../../src/shared/redis/page-bounds.ts";
import type { MeasuredPage, StreamItem } from "../../../../src/shared/redis/replies.ts";
import { latch } from "../../../helpers/latch.ts";

function item(id: string): StreamItem {
  const head = { reply_id: id, parent_id: "p", agent_id: "a", name: "a", run: 1, created_at: "" };
  return { id, uid: "u", entry: { ...head, agent_status: "running", kind: "message", text: id } };
}

const pageOf = (chars: number, ids: readonly string[] = ["1-0"]): MeasuredPage => ({
  items: ids.map(item),
  chars,
  isLast: false,
});

/** Promises that have nothing to wait for are over. */
const settled = () => new Promise(setImmediate);

test("a tenant reads two pages at a time, in the order of the calls; another tenant waits for none of them", async () => {
  const bounds = new PageBounds();
  const begun: string[] = [];
  const answers = [latch(), latch(), latch()];
  const reads = answers.map((answer, i) =>
    bounds.read("acme", async () => {
      begun.push(`acme ${i}`);
      await answer.opened;
      return pageOf(1);
    }),
  );
  await bounds.read("other", async () => {
    begun.push("other");
    return pageOf(1);
  });
  expect(begun).toEqual(["acme 0", "acme 1", "other"]);
  answers[1]?.open();
  await reads[1];
  await settled();
  expect(begun).toEqual(["acme 0", "acme 1", "other", "acme 2"]);
  for (const answer of answers) answer.open();
  await Promise.all(reads);
});

test("a tenant whose entries fill its room reads on when the last entry of a page was released", async () => {
  const bounds = new PageBounds(10);
  const first = await bounds.read("acme", async () => pageOf(10, ["1-0", "2-0"]));
  let isBegun = false;
  const next = bounds.read("acme", async () => {
    isBegun = true;
    return pageOf(10);
  });
  first.release();
  await settled();
  expect(isBegun).toBe(false);
  first.release();
  expect((await next).entries).toHaveLength(1);
});

test("a failed read and a page without a readable entry take no room", async () => {
  const bounds = new PageBounds(1);
  const failing = async () => {
    throw new RangeError("no answer");
  };
  for (let i = 0; i < 3; i++) await expect(bounds.read("acme", failing)).rejects.toThrow("no answer");
  const unreadable = { id: "9-0", uid: "u", entry: { kind: "unreadable" as const, reply_id: "r" } };
  const empty = await bounds.read("acme", async () => ({ items: [unreadable], chars: 9, isLast: false }));
  expect(empty).toMatchObject({ entries: [], lastId: "9-0" });
  expect(await bounds.read("acme", async () => ({ ...pageOf(1), isLast: true }))).toMatchObject({
    lastId: "1-0",
    isLast: true,
  });
});

test("a read whose signal aborts ends at once without a page, and takes no turn of another", async () => {
  const bounds = new PageBounds(1);
  const held = await bounds.read("acme", async () => pageOf(1));
  const begun: string[] = [];
  const leaving = new AbortController();
  const readOf = (who: string, signal?: AbortSignal) =>
    bounds.read(
      "acme",
      async () => {
        begun.push(who);
        return pageOf(0, []);
      },
      signal,
    );
  const [left, stays] = [readOf("left", leaving.signal), readOf("stays")];
  leaving.abort();
  expect(await left).toMatchObject({ entries: [], isLast: true });
  expect(begun).toEqual([]);
  held.release();
  await stays;
  expect(begun).toEqual(["stays"]);
});
