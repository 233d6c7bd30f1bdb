/** Guarantee: a figure of the whole installation costs no more the more parents there are. */
import { expect, test } from "vitest";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import type { RedisClient } from "../../../../src/shared/redis/connection/connection.ts";
import { readOldestUnpushedMs } from "../../../../src/shared/redis/survey.ts";

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
