import { expect, test } from "vitest";
import { pairs } from "../../../../src/shared/redis/codec.ts";

test("a flat list is taken two by two, and what stands alone at its end is left out", () => {
  expect([...pairs([])]).toEqual([]);
  expect([...pairs(["a", "1", "b", "2", "c"])]).toEqual([
    ["a", "1"],
    ["b", "2"],
  ]);
});
