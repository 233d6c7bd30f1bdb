/** Guarantee: a conversation that does not fit is made shorter by what costs the model least, and the model is told to go on. */
import { expect, test } from "vitest";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { isFilling, makeRoom } from "../../../../src/worker/loop/caps.ts";
import { next } from "../../../../src/worker/loop/next.ts";
import { asked, call, rules, type Story, text, used } from "./story.ts";

const LONG = "a long word ".repeat(50);

/** A run of `turns` turns of long texts, with results that are short but for those of `page`. */
function long(turns: number, name = "look"): Story {
  const story = asked();
  for (let k = 1; k <= turns; k++)
    story.asks(text(`${k} ${LONG}`), call(`c${k}`, name)).result(`c${k}`, name === "page" ? LONG : "done");
  return story;
}

const inVain = (story: Story, k: number, sums_up: number) =>
  story.add(entryKey.purchase(story.n + 1, 1, k), { usage: used(1), cost_usd: 0, sums_up });

test("of several summaries that failed the shortest counts, in whatever order the log is returned", () => {
  const [once, twice] = [inVain(long(8), 0, 7), inVain(inVain(long(8), 1, 7), 0, 11)];
  expect(makeRoom(once.log(), rules())).toMatchObject({ turn: 10, compactBefore: 5 });
  expect(makeRoom(twice.log(), rules())).toMatchObject({ turn: 11, compactBefore: 5 });
});

test("each summary that failed is followed by a shorter one, until there is none", () => {
  const story = long(8);
  const tried: (number | undefined)[] = [];
  for (let k = 0; k < 8; k++) {
    const step = makeRoom(story.log(), rules());
    if (step?.do !== "call_model") break;
    tried.push(step.compactBefore);
    inVain(story, k, step.compactBefore);
  }
  expect(tried).toEqual([11, 7, 5, 3]);
});

test("where all but the last turn is one long message, a summary stands for more than the usual share", () => {
  const story = asked()
    .asks(text(LONG.repeat(20)), call("a"))
    .result("a", "done")
    .asks(text("so"), call("b"))
    .result("b", "done");
  expect(makeRoom(story.log(), rules())).toMatchObject({ do: "call_model", compactBefore: 3 });
});

test("a window fills from 150,000 tokens of the previous call on, unless the worker says otherwise", () => {
  const state = long(1).log();
  const fills = (tokens: number, clearAtTokens?: number) =>
    isFilling(
      Object.assign(state, { last: { ...state.last, usage: used(tokens) } }),
      rules({}, clearAtTokens === undefined ? {} : { clearAtTokens }),
    );
  expect([fills(149_999), fills(150_000)]).toEqual([false, true]);
  expect([fills(9, 10), fills(10, 10)]).toEqual([false, true]);
});

test("the results of the last turns are left out as well where nothing older makes room", () => {
  expect(makeRoom(long(2, "page").log(), rules())).toEqual({
    do: "clear",
    message: 4,
    cleared: { v: 1, through: 3 },
  });
  expect(makeRoom(long(4, "page").log(), rules())).toMatchObject({ cleared: { through: 1 } });
});

test("a model whose answer was cut off by the length is told to go on when room is made", () => {
  const state = long(2, "page")
    .model("model_context_window_exceeded", [text("half an")])
    .log();
  expect(makeRoom(state, rules())).toMatchObject({ do: "clear", cleared: { go_on: true } });
});

test("when room is made the cut-off answer is gone on with, though the conversation is not yet known to fit", () => {
  const story = long(4, "page").model("model_context_window_exceeded", [text("half an")]);
  expect(next(story.log(), rules())).toMatchObject({ do: "clear" });
  story.cleared(1, true);
  expect(next(story.log(), rules())).toEqual({ do: "call_model", message: 11, turn: 6 });
});
