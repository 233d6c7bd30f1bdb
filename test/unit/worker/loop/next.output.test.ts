import { describe, expect, test } from "vitest";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { next } from "../../../../src/worker/loop/next.ts";
import { replyBody } from "../../../../src/worker/loop/reply-body.ts";
import { asked, call, conversation, message, rules, type Story, text } from "./story.ts";

const shaped = rules({}, { outputSchema: { type: "object" } });
const judged = (story: Story, fits: boolean, more: object = {}) =>
  story.add(entryKey.verdict(story.n - 1), { fits, ...(!fits && { problem: "at #: no object" }), ...more });
const mismatches = (count: number) => {
  const story = asked();
  for (let k = 0; k < count; k++) judged(story.model("end_turn", [text(`try ${k}`)]), false);
  return story;
};

describe("a run whose parent asked for output", () => {
  test("checks each final answer before it ends, and no other one", () => {
    const story = asked().model("end_turn", [text("{}")]);
    expect(next(story.log(), shaped)).toEqual({ do: "check_output", message: 1, text: "{}" });
    expect(next(story.log(), rules())).toMatchObject({ do: "settle", reason: "end_turn" });
    expect(next(asked().asks(call("a")).log(), shaped)).toMatchObject({ do: "run_tools" });
  });

  test("ends naturally when it fits, its value in the reply", () => {
    const state = judged(asked().model("end_turn", [text('{"a":[1]}')]), true).log();
    expect(next(state, shaped)).toEqual({ do: "settle", reason: "end_turn", natural: true });
    expect(replyBody(state, shaped).output).toEqual({ a: [1] });
  });

  test("asks three times more when it does not, saying why, and keeps the last text", () => {
    for (const count of [1, 2, 3]) {
      const step = next(mismatches(count).log(), shaped);
      expect(step).toEqual({ do: "call_model", message: 2 * count + 1, turn: count + 1, asksOutput: true });
    }
    const state = mismatches(4).log();
    expect(next(state, shaped)).toEqual({ do: "settle", reason: "invalid_output", natural: false });
    expect(replyBody(state, shaped)).toMatchObject({
      summary: "try 3",
      error: expect.stringContaining("no object"),
    });
    expect(replyBody(state, shaped).output).toBeUndefined();
    expect(JSON.stringify(conversation(mismatches(1).log()).at(-1))).toContain("at #: no object");
  });

  test("is not asked again when no turn is left, or when the schema cannot be checked", () => {
    const capped = rules({ max_turns: 1 }, { outputSchema: {} });
    expect(next(mismatches(1).log(), capped)).toMatchObject({ do: "settle", reason: "invalid_output" });
    const final = judged(asked().model("end_turn", [text("{}")]), false, { final: true });
    expect(next(final.log(), shaped)).toMatchObject({ do: "settle", reason: "invalid_output" });
  });

  test("is not asked again when a budget is spent: the call would be refused, and planned again", () => {
    const state = mismatches(1).log({ overBudget: { cap: "max_cost" } });
    expect(next(state, shaped)).toEqual({ do: "settle", reason: "invalid_output", natural: false });
  });

  test("hands over output with the final call of a cap, and keeps the cap as its reason", () => {
    const story = asked().model("end_turn", [text("{}")], { hand_back: "max_cost" });
    expect(next(story.log(), shaped)).toMatchObject({ do: "check_output" });
    const state = judged(story, true).log();
    expect(next(state, shaped)).toMatchObject({ do: "settle", reason: "max_cost" });
    expect(replyBody(state, shaped).output).toEqual({});
  });

  test("starts to count anew with a message of the parent, which is said in place of the correction", () => {
    const story = mismatches(3).user("More.");
    const state = story.log();
    expect(next(state, shaped)).toEqual({ do: "call_model", message: 7, turn: 4 });
    expect(JSON.stringify(conversation(state).at(-1))).not.toContain("no object");
    judged(story.model("end_turn", [text("no")]), false);
    expect(next(story.log({ unread: [] }), shaped)).toMatchObject({ asksOutput: true });
    expect(next(story.log({ unread: [message("And?")] }), shaped)).toMatchObject({ do: "deliver" });
  });
});
