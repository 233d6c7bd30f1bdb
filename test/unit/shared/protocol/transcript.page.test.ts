import { expect, test } from "vitest";
import { pageOf } from "../../../../src/shared/protocol/transcript.ts";

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
