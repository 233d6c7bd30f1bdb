import { expect, test } from "vitest";
import { createLine } from "../../../../src/producer/replies/line.ts";

const MOST = 64;
const MANY = 5_000;

test("of any amount of work so many pieces are under way, and all begin in their order, the first ones at once", async () => {
  const begin = createLine(MOST);
  const begun: number[] = [];
  let [underWay, most] = [0, 0];
  const all = Array.from(
    { length: MANY },
    (_, n) =>
      new Promise<void>((resolve) => {
        begin(async () => {
          begun.push(n);
          underWay += 1;
          most = Math.max(most, underWay);
          await Promise.resolve();
          underWay -= 1;
          resolve();
        });
      }),
  );
  expect(begun).toHaveLength(MOST);
  await Promise.all(all);
  expect(most).toBe(MOST);
  expect(begun).toEqual(Array.from({ length: MANY }, (_, n) => n));
});
