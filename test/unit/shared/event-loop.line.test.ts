import { expect, test } from "vitest";
import { createLine, onceInLine } from "../../../src/shared/event-loop.ts";
import { latch } from "../../helpers/latch.ts";

const MOST = 64;
const MANY = 5_000;

test("of any amount of work so many pieces are under way, and all begin in their order", async () => {
  const inLine = createLine(MOST);
  const begun: number[] = [];
  let [underWay, most] = [0, 0];
  const work = async (n: number) => {
    begun.push(n);
    underWay += 1;
    most = Math.max(most, underWay);
    await Promise.resolve();
    underWay -= 1;
  };
  await Promise.all(Array.from({ length: MANY }, (_, n) => inLine(() => work(n))));
  expect(most).toBe(MOST);
  expect(begun).toEqual(Array.from({ length: MANY }, (_, n) => n));
});

test("work for the same waits in the line once, and again after it has begun", async () => {
  const inLine = createLine(1);
  const request = onceInLine<string>(inLine);
  const begun: string[] = [];
  const ends = [latch(), latch()];
  const work = (what: string) => async () => {
    const end = ends[begun.length];
    begun.push(what);
    await end?.opened;
  };
  for (const what of ["a", "b", "b", "a"]) request(what, work(what));
  for (const end of ends) end.open();
  await inLine(async () => {});
  expect(begun).toEqual(["a", "b", "a"]);
  request("b", work("b"));
  await inLine(async () => {});
  expect(begun).toEqual(["a", "b", "a", "b"]);
});
