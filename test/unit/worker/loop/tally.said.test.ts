/** Guarantee: a text is left to its log entry only where a script of Redis can read that entry. */
import { expect, test } from "vitest";
import { Tally } from "../../../../src/worker/loop/tally.ts";
import { text, used } from "./story.ts";

/** The message that holds the text of an answer whose content is `contentJson`; 0: none that a script can read. */
function saidIn(contentJson: string): number {
  const tally = new Tally();
  const paid = { stopReason: "end_turn", model: "m", usage: used(1), costUsd: 0 };
  tally.answer({ ...paid, message: 3, content: [text("found it")], contentJson });
  return tally.said;
}

const nested = (levels: number, core = "") => `${"[".repeat(levels)}${core}${"]".repeat(levels)}`;
const LONG = `"${"w".repeat(5_000)}"`;

test("an entry of 989 levels is read by scripts, a deeper one is not", () => {
  expect([saidIn(nested(989, LONG)), saidIn(nested(990, LONG))]).toEqual([3, 0]);
  expect(saidIn(nested(5_000))).toBe(0);
});

test("a short entry is not too deep, whatever its texts are", () => {
  expect(saidIn(JSON.stringify([text("]".repeat(1_500))]))).toBe(3);
});

test("neither is a long one with few brackets", () => {
  expect(saidIn(JSON.stringify([text("w".repeat(100_000))]))).toBe(3);
});
