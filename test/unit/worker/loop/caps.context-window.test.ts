import { expect, test } from "vitest";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { clearStep, makeRoom } from "../../../../src/worker/loop/caps.ts";
import { readLog } from "../../../../src/worker/loop/log.ts";
import { next } from "../../../../src/worker/loop/next.ts";
import { asked, call, conversation, rules, type Story, text, used } from "./story.ts";

const LONG = "a long word ".repeat(50);

/** A run of `turns` turns of long texts, with results that are short but for those of `page`. */
function long(turns: number, name = "look"): Story {
  const story = asked();
  for (let k = 1; k <= turns; k++) {
    story.asks(text(`${k} ${LONG}`), call(`c${k}`, name)).result(`c${k}`, name === "page" ? LONG : "done");
  }
  return story;
}

const summary = (story: Story, before: number, words = `before ${before}`) =>
  story.add(entryKey.compacted(story.n, before), {
    before,
    summary: words,
    model: "m",
    usage: used(7),
    cost_usd: 0.5,
    duration_ms: 1,
  });

test("a summary stands for what was said before, beside the words with which the run began, and counts as a turn", () => {
  const state = summary(long(4), 5).log();
  const [head, ...rest] = conversation(state);
  expect(head?.content.map((block) => String(block.text).slice(0, 24))).toEqual([
    "What is it?",
    "[This conversation had b",
  ]);
  expect(String(head?.content[1]?.text)).toContain("before 5");
  expect(rest.map(({ role }) => role)).toEqual(["assistant", "user", "assistant", "user"]);
  expect(state).toMatchObject({
    paidCalls: 5,
    turns: 5,
    compactions: 1,
    tally: { tokens: 47, costUsd: 1.5 },
  });
});

test("the tokens that summaries have taken the place of are counted, for the task budget", () => {
  const story = long(8);
  const chars = () => JSON.stringify(conversation(story.log())).length;
  const spared = () => story.log().conversation.summedUpTokens;
  const whole = chars();
  summary(story, 5);
  // Four characters a token.
  const once = Math.round((whole - chars()) / 4);
  expect(spared()).toBe(once);
  story.calls("c9");
  const longer = chars();
  summary(story, 11);
  expect(spared()).toBe(once + Math.round((longer - chars()) / 4));
});

test("of two summaries at one message the later one holds, in whatever order the log is returned", () => {
  const story = summary(summary(long(6), 9, "the later one"), 5, "the earlier one");
  const [head] = conversation(story.log());
  expect(JSON.stringify(head)).toContain("the later one");
  expect(JSON.stringify(head)).not.toContain("the earlier one");
});

test("the words with which a later run began stand once, where they were said", () => {
  const story = long(4)
    .model("end_turn", [text("done")])
    .nextRun()
    .user("And now?")
    .calls("c5");
  const said = JSON.stringify(conversation(summary(story, 5).log()));
  expect(said.split("And now?")).toHaveLength(2);
  expect(said).not.toContain("What is it?");
});

test("nothing of a conversation counts as cached once a part of it was left out", () => {
  const cached = (story: Story) => story.log().conversation.request().cachedLength;
  expect(cached(long(4, "page"))).toBeGreaterThan(0);
  expect(cached(long(4, "page").cleared(5))).toBe(0);
  expect(cached(summary(long(4, "page"), 5))).toBe(0);
});

test("results behind a summary can still be left out", () => {
  const story = summary(long(4, "page"), 5);
  const state = story.calls("c5", "look").cleared(7).log();
  expect(
    conversation(state)
      .flatMap(({ content }) => content)
      .filter(({ type }) => type === "tool_result"),
  ).toEqual([
    expect.objectContaining({
      content: expect.stringMatching(/^\[Left out to make room: the result of page/),
    }),
    expect.objectContaining({
      content: expect.stringMatching(/^\[Left out to make room: the result of page/),
    }),
    expect.objectContaining({ content: "result of c5" }),
  ]);
  expect(state.conversation.clearable(0)).toBeUndefined();
});

test("no summary is asked for where the beginning alone is long, or where it is the run's own words", () => {
  expect(makeRoom(asked(LONG.repeat(20)).calls("a").log(), rules())).toBeUndefined();
  expect(makeRoom(long(1).log(), rules())).toBeUndefined();
});

test("what was paid for no summary is not asked for again, by any worker, but less is", () => {
  const story = long(8);
  const first = makeRoom(story.log(), rules());
  expect(first).toMatchObject({ do: "call_model", message: 17, turn: 9, compactBefore: 11 });
  story.add(entryKey.purchase(17, 1, 0), { usage: used(1), cost_usd: 0, sums_up: 11 });
  expect(makeRoom(story.log(), rules())).toMatchObject({ turn: 10, compactBefore: 7 });
  // An answer later, all that stands there by then may be summed up.
  for (let k = 9; k <= 16; k++) story.asks(text(`${k} ${LONG}`), call(`c${k}`, "look")).result(`c${k}`);
  expect(makeRoom(story.log(), rules())).toMatchObject({ do: "call_model", compactBefore: 25 });
});

test("after a summary the call that was too long is made again, and not a second summary", () => {
  const story = long(8);
  const state = story.log();
  state.tooLongAtMessage = state.userMessageNumber;
  expect(next(state, rules())).toMatchObject({ do: "call_model", compactBefore: 11 });
  for (const entry of readLog(summary(story, 11).entries)) if (entry.kind === "compacted") state.fold(entry);
  expect(next(state, rules())).toMatchObject({ do: "call_model", turn: 10 });
  expect(next(state, rules())).not.toHaveProperty("compactBefore");
});

test("no summary is bought without a call that goes on from it, nor a sixth one", () => {
  expect(makeRoom(long(8).log(), rules({ max_turns: 9 }))).toBeUndefined();
  expect(makeRoom(long(8).log(), rules({ max_turns: 10 }))).toBeDefined();
  expect(makeRoom(Object.assign(long(8).log(), { compactions: 5 }), rules())).toBeUndefined();
});

test("results are left out of a window that fills only where that frees a fifth of it", () => {
  const state = long(6, "page").log();
  const { chars = 0 } = state.conversation.clearable(3) ?? {};
  const filled = (tokens: number) =>
    clearStep(Object.assign(state, { last: { ...state.last, usage: used(tokens) } }), false);
  // A token is counted as three characters.
  const worthIt = Math.floor(chars / 3 / 0.2);
  expect(filled(worthIt - 1)).toMatchObject({ do: "clear" });
  expect(filled(worthIt + 1)).toBeUndefined();
  // Where the next call would not fit, whatever it frees.
  expect(makeRoom(state, rules())).toMatchObject({ do: "clear" });
});
