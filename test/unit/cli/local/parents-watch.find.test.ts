/** Guarantee: a watch of an installation with many parents reads each second those that were active since, not all of them. */
import { expect, test } from "vitest";
import { parentFinder } from "../../../../src/cli/local/parents-watch.ts";

const NOW_MS = Date.parse("2026-12-01T12:00:00.000Z");

function scene() {
  const index = new Map<string, number>();
  const asked: number[] = [];
  let monotonicMs = 0;
  const client = {
    async parents({ since = "" }: { since?: Date | string } = {}) {
      const found = [...index].filter(([, atMs]) => atMs >= new Date(since).getTime());
      asked.push(found.length);
      return found
        .sort(([, a], [, b]) => b - a)
        .map(([parent_id, atMs]) => ({
          parent_id,
          tenant: "default",
          active_at: new Date(atMs).toISOString(),
        }));
    },
  };
  const find = parentFinder({
    client,
    clock: { monotonicMs: () => monotonicMs },
    redisNowMs: () => NOW_MS + monotonicMs,
    isWanted: ({ parent_id }) => parent_id.startsWith("cli-"),
  });
  return {
    index,
    asked,
    async findAfter(ms: number) {
      monotonicMs += ms;
      return (await find()).map(({ parent_id }) => parent_id).sort();
    },
  };
}

test("after the first search a watch reads the parents that were active since, and still finds the others", async () => {
  const { index, asked, findAfter } = scene();
  for (let n = 0; n < 3_000; n += 1) index.set(`other-${n}`, NOW_MS - 60_000 - n);
  index.set("cli-early", NOW_MS - 100_000);
  index.set("cli-long-ago", NOW_MS - 700_000);
  expect(await findAfter(0)).toEqual(["cli-early"]);
  index.set("cli-late", NOW_MS + 500);
  index.set("other-7", NOW_MS + 900);
  expect(await findAfter(1_000)).toEqual(["cli-early", "cli-late"]);
  expect(await findAfter(1_000)).toEqual(["cli-early", "cli-late"]);
  expect(asked).toEqual([3_001, 3, 1]);
});

test("every 30 s a watch reads all: it finds what a clock that went back has hidden, and forgets who was active long ago", async () => {
  const { index, findAfter } = scene();
  index.set("cli-early", NOW_MS - 590_000);
  index.set("other", NOW_MS);
  expect(await findAfter(0)).toEqual(["cli-early"]);
  index.set("cli-behind", NOW_MS - 120_000);
  expect(await findAfter(1_000)).toEqual(["cli-early"]);
  expect(await findAfter(29_000)).toEqual(["cli-behind"]);
});
