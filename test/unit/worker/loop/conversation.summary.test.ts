import { expect, test } from "vitest";
import { asked, call, conversation, text } from "./story.ts";

const LONG = "a long word ".repeat(50);

/** A run of four turns with long answers, whose messages are 1, 3, 5 and 7. */
function longRun() {
  const story = asked();
  for (let k = 1; k <= 4; k += 1)
    story
      .asks(text(LONG), call(`c${k}`))
      .started(`c${k}`)
      .result(`c${k}`);
  return story.log();
}

test("a summary is worth it where it is shorter than just what it would replace", () => {
  const { conversation: spoken } = longRun();
  expect([3, 5, 7].map((before) => spoken.isShorter(before, "short"))).toEqual([true, true, true]);
  const summary = "s".repeat(3 * LONG.length);
  expect([3, 5, 7].map((before) => spoken.isShorter(before, summary))).toEqual([false, false, true]);
  expect([2, 9].map((before) => spoken.isShorter(before, "short"))).toEqual([false, false]);
});

test("a summary stands for all before its answer: no cut is left there, and nothing of it was cached", () => {
  const { conversation: spoken } = longRun();
  expect(spoken.request().cachedLength).toBeGreaterThan(0);
  spoken.compact(5, "the summary of two answers", false);
  expect(spoken.request().cachedLength).toBe(0);
  expect(spoken.isShorter(5, "")).toBe(false);
  expect(spoken.isShorter(7, "short")).toBe(true);
});

test("a mark and a result of a call that the last answer did not make change nothing", () => {
  const state = longRun();
  const before = conversation(state);
  state.conversation.begin("c1");
  state.conversation.result("of-no-answer", JSON.stringify("found"), false);
  expect(conversation(state)).toEqual(before);
});

test("a summary of less than what a later one has replaced changes nothing", () => {
  const state = longRun();
  state.conversation.compact(7, "the later one", false);
  const before = conversation(state);
  expect(JSON.stringify(before)).toContain("the later one");
  state.conversation.compact(5, "the earlier one", false);
  expect(conversation(state)).toEqual(before);
});
