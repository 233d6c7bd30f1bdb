/** Guarantee: a run whose window fills leaves out old results before its next call, once a message, and only if that saves a fifth. */
import { expect, test } from "vitest";
import { makeRoom } from "../../../../src/worker/loop/caps.ts";
import { next } from "../../../../src/worker/loop/next.ts";
import type { RunState } from "../../../../src/worker/loop/state.ts";
import { asked, call, rules, type Story, text, used } from "./story.ts";

const PAGE = "a long word ".repeat(50);
const FILLED_AT = 100;

/** A run of `turns` turns, each with a long result. */
function reading(turns: number): Story {
  const story = asked();
  for (let k = 1; k <= turns; k++) story.asks(text("next"), call(`c${k}`, "page")).result(`c${k}`, PAGE);
  return story;
}

/** What follows when the last call of `state` took `tokens`. */
function after(state: RunState, tokens: number) {
  Object.assign(state, { last: { ...state.last, usage: used(tokens) } });
  return next(state, rules({}, { clearAtTokens: FILLED_AT }));
}

const CALL = { do: "call_model", message: 11, turn: 6 };

test("the results of all but the last three turns are left out when the window fills, not before", () => {
  const clear = { do: "clear", message: 10, cleared: { v: 1, through: 3 } };
  expect(after(reading(5).log(), FILLED_AT)).toEqual(clear);
  expect(after(reading(5).log(), FILLED_AT - 1)).toEqual(CALL);
});

test("the results of the last three turns stay: they are what the model works with", () => {
  expect(after(reading(3).log(), FILLED_AT)).toEqual({ do: "call_model", message: 7, turn: 4 });
});

test("results that save less than a fifth of the call stay, for the prompt cache is lost with them", () => {
  const saved = reading(5).log().conversation.clearable(3)?.chars ?? 0;
  // Three characters a token.
  const fifth = Math.floor(saved / 3 / 0.2);
  expect(after(reading(5).log(), fifth - 1)).toMatchObject({ do: "clear" });
  expect(after(reading(5).log(), fifth + 1)).toEqual(CALL);
});

test("what was left out before this message is followed by the call, though the last one filled the window", () => {
  expect(after(reading(5).cleared(3).log(), FILLED_AT)).toEqual(CALL);
});

test("a call that was too long is made shorter by however little there is", () => {
  const state = reading(5).log();
  Object.assign(state, { last: { ...state.last, usage: used(1_000_000) } });
  expect(makeRoom(state, rules())).toMatchObject({ do: "clear", cleared: { through: 3 } });
});
