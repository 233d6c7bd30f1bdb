import { expect, test } from "vitest";
import { createLine, createTurns } from "../../../src/shared/event-loop.ts";
import { latch } from "../../helpers/latch.ts";

const nextRound = () => new Promise((resolve) => setImmediate(resolve));

test("turns are given in the order of the calls, and in one round of the event loop no more than allowed", async () => {
  const take = createTurns(3);
  const taken: number[] = [];
  const callers = Array.from({ length: 8 }, async (_, n) => {
    await take();
    taken.push(n);
  });
  const counts: number[] = [];
  for (let round = 0; taken.length < callers.length && round < 20; round++) {
    await nextRound();
    counts.push(taken.length);
  }
  expect(taken).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  let before = 0;
  for (const count of counts) {
    // Two rounds may have begun since the count before.
    expect(count - before).toBeLessThanOrEqual(6);
    before = count;
  }
  expect(counts[0]).toBeLessThan(8);
  await nextRound();
  expect([take(), take(), take()]).toEqual([undefined, undefined, undefined]);
  expect(take()).toBeInstanceOf(Promise);
});

test("a line carries out its work in order and at most so much at a time, whether it succeeds or fails", async () => {
  const inLine = createLine(2);
  const begun: number[] = [];
  const ends = Array.from({ length: 5 }, () => latch());
  const works = ends.map((end, n) =>
    inLine(async () => {
      begun.push(n);
      await end.opened;
      if (n === 0) throw new RangeError("failed");
      return n;
    }),
  );
  works[0]?.catch(() => {});
  await nextRound();
  expect(begun).toEqual([0, 1]);
  ends[0]?.open();
  await expect(works[0]).rejects.toThrow(RangeError);
  await nextRound();
  expect(begun).toEqual([0, 1, 2]);
  for (const end of ends) end.open();
  expect(await Promise.all(works.slice(1))).toEqual([1, 2, 3, 4]);
  const both = [latch(), latch(), latch()];
  for (const [n, end] of both.entries())
    void inLine(async () => {
      begun.push(10 + n);
      await end.opened;
    });
  await nextRound();
  expect(begun.slice(5)).toEqual([10, 11]);
  for (const end of both) end.open();
});
