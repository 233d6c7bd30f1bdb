/** Guarantee: an output may be as long as its limit says, and no longer. */
import { expect, test } from "vitest";
import { readOutput } from "../../../../src/shared/protocol/output.ts";

test("an output of a mebi of characters is read, and one more is too long", () => {
  const longest = JSON.stringify("x".repeat(1024 * 1024 - 2));
  expect(readOutput(` ${longest} `).status).toBe("json");
  expect(readOutput(longest.replace("x", "xx"))).toEqual({ status: "unreadable", problem: "it is too long" });
});
