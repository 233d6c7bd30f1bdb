/** A call that a hook denies after its mark is no call: neither in the sum nor under its name. */
import { expect, test } from "vitest";
import { Tally } from "../../../../src/worker/loop/tally.ts";

test("calls that were taken back are in neither count, and a name without calls is gone", () => {
  const tally = new Tally();
  for (const name of ["look", "write", "write"]) tally.call(name);
  tally.uncall("look");
  tally.uncall("write");
  expect(tally.toolCalls).toBe(1);
  expect([...tally.calls]).toEqual([["write", 1]]);
});
