/** Guarantee: entries are told apart by what they hold, and one that cannot be read is named. */
import { expect, test } from "vitest";
import {
  newAnswer,
  newCompacted,
  newNotice,
  newPurchase,
  paidIn,
  readEntry,
  without,
} from "../../../../src/worker/loop/log.ts";
import { text, used } from "./story.ts";

test("entries that are committed are taken out of those that are to be, and no others", () => {
  const [first, second, third] = [newNotice(0, "a"), newNotice(2, "b"), newNotice(4, "c")];
  expect(without([first, second, third], [second])).toEqual([first, third]);
  expect(without([], [first])).toEqual([]);
});

test("an answer, a summary and a call in vain hold what was paid for them, a notice nothing", () => {
  const content = [text("done")];
  const answer = { content, contentJson: JSON.stringify(content), stopReason: "end_turn", model: "m" };
  const price = { usage: used(7), cost_usd: 0.25 };
  const summary = { v: 1 as const, before: 1, summary: "short", model: "m", duration_ms: 1, ...price };
  const bought = [
    newAnswer(1, { ...answer, usage: used(7), costUsd: 0.25 }, 1),
    newCompacted(2, summary),
    newPurchase(3, 1, 0, { v: 1, ...price }),
  ];
  for (const { entry } of bought) expect(paidIn(entry)).toEqual({ usage: used(7), costUsd: 0.25 });
  expect(paidIn(newNotice(0, "a").entry)).toBeUndefined();
});

test("what is no JSON is named by its key in the log", () => {
  expect(() => readEntry("3", "{")).toThrow(
    expect.objectContaining({ issues: [{ code: "custom", message: "not JSON", path: ["log", "3"] }] }),
  );
});

test("a mark of a form that this version does not know is refused", () => {
  expect(readEntry("3/a/started", '{"v":1,"name":"write"}')).toMatchObject({ kind: "started", callId: "a" });
  expect(() => readEntry("3/a/started", '{"v":2,"name":"write"}')).toThrow(/"v"/);
});
