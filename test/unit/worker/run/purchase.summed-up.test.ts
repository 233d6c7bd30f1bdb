/** Guarantee: what is charged for a lost call is the call that was made. */
import { expect, test } from "vitest";
import { NextPurchase, summedUpBy } from "../../../../src/worker/run/purchase.ts";

test("the name of a purchase tells which messages its call was to sum up", () => {
  const nameOf = (target: { message: number; compactBefore?: number }) =>
    new NextPurchase("sa-1", "claim", 4).idOf(target).slice("sa-1.".length);
  expect(summedUpBy(nameOf({ message: 31, compactBefore: 17 }))).toBe(17);
  expect(summedUpBy(nameOf({ message: 31 }))).toBeUndefined();
});
