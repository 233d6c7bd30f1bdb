import { expect, test } from "vitest";
import { latch } from "./latch.ts";

test("a latch hands its first value to everybody who waits, and ignores later ones", async () => {
  const gate = latch<number>();
  const early = gate.opened;
  expect(gate.isOpen).toBe(false);
  gate.open(1);
  gate.open(2);
  expect(gate.isOpen).toBe(true);
  expect(await Promise.all([early, gate.opened])).toEqual([1, 1]);
});
