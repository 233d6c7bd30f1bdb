import { expect, test } from "vitest";
import { pageOf, withinBytes } from "../../../../src/shared/protocol/transcript.ts";

const KEYS = [
  "5",
  "0",
  "1/a/result",
  "1/b/started",
  "1",
  "1/a/started",
  "2",
  "3",
  "4/from-the-future/x",
  "10",
];

test("a page is whole messages, in their order, and says where the next one begins", () => {
  const pages: string[][] = [];
  for (let after: number | undefined = -1; after !== undefined; ) {
    const { keys, next } = pageOf(KEYS, { after, limit: 3 });
    pages.push(keys);
    after = next;
  }
  expect(pages).toEqual([["0"], ["1/a/result", "1/b/started", "1", "1/a/started"], ["2", "3", "5"], ["10"]]);
});

test("nothing is behind the last message, and a page that holds all has no next one", () => {
  expect(pageOf(KEYS, { after: 10, limit: 1 })).toEqual({ keys: [] });
  expect(pageOf(KEYS, { after: -1, limit: 500 }).next).toBeUndefined();
});

test("a page ends before it has too many bytes, behind a whole message, and has one in any case", () => {
  const keys = ["0", "1", "1/a/started", "1/a/result", "2", "3"];
  const page = { keys, next: 3 };
  expect(withinBytes(page, [1, 1, 1, 1, 1, 1], 6)).toBe(page);
  expect(withinBytes(page, [1, 1, 1, 1, 1, 9], 6)).toEqual({ keys: keys.slice(0, 5), next: 2 });
  expect(withinBytes(page, [1, 1, 1, 9, 1, 1], 6)).toEqual({ keys: ["0"], next: 0 });
  expect(withinBytes(page, [9, 1, 1, 1, 1, 1], 6)).toEqual({ keys: ["0"], next: 0 });
  const single = { keys: ["1", "1/a/started", "1/a/result"] };
  expect(withinBytes(single, [9, 9, 9], 6)).toBe(single);
  expect(withinBytes({ keys: [] }, [], 6)).toEqual({ keys: [] });
});
