/** Guarantee: a figure of the whole installation costs no more the more parents there are. */
import { expect, test } from "vitest";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import type { RedisClient } from "../../../../src/shared/redis/connection/connection.ts";
import { readOldestUnpushedMs, readParents } from "../../../../src/shared/redis/survey.ts";

test("the oldest entry to push is that of the parents that are due first, as many as asked for", async () => {
  const asked: unknown[][] = [];
  const redis = {
    time: async () => ["5", "0"],
    async zrange(...words: unknown[]) {
      asked.push(words);
      return [];
    },
  } as unknown as RedisClient;
  const keys = keysUnder("saq");
  expect(await readOldestUnpushedMs(redis, keys, 1_000)).toBe(0);
  expect(asked).toEqual([[keys.webhooksDue, 0, 999]]);
});

test("the last active parents are read as many as asked for, past entries that name none, however long their index is", async () => {
  const asked: unknown[][] = [];
  const members = Array.from({ length: 30_000 }, (_, n) => (n === 1 ? "stray" : `acme/p-${n}`));
  const redis = {
    async zrange(key: string, from: number, to: number, ...words: unknown[]) {
      asked.push([key, from, to, ...words]);
      return members.slice(from, to + 1).flatMap((member, n) => [member, `${90_000 - from - n}`]);
    },
  } as unknown as RedisClient;
  const keys = keysUnder("saq");
  const found = await readParents(redis, keys, 0, 50);
  const expected = members.slice(0, 51).filter((member) => member !== "stray");
  expect(found.map(({ parent }) => `${parent.tenant}/${parent.parentId}`)).toEqual(expected);
  expect(asked).toEqual([
    [keys.parents, 0, 49, "REV", "WITHSCORES"],
    [keys.parents, 50, 50, "REV", "WITHSCORES"],
  ]);
});
