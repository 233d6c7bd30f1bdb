/** What was asked for once in a run is not asked for again: a permission, and text after an empty answer. */
import { expect, test } from "vitest";
import { permissionQuestion } from "../../../../src/shared/protocol/message.ts";
import { next } from "../../../../src/worker/loop/next.ts";
import { asked, call, rules } from "./story.ts";

test("a call whose parent was asked, and said something else than yes or no, is not asked about again", () => {
  const asking = rules({}, { canAsk: true, canBePermitted: true, permissions: [{ ask: ["write"] }] });
  const story = asked().asks(call("a"));
  const { question_id } = permissionQuestion("a", "write", {}, "ask write");
  expect(next(story.log(), asking)).toMatchObject({ do: "ask" });
  story.started(question_id, "write");
  expect(next(story.log(), asking)).toMatchObject({
    do: "run_tools",
    calls: [{ id: "a", how: "unanswered" }],
  });
});

test("an empty answer to the results of tools is asked for once more, a second one is the end", () => {
  const story = asked().asks(call("a")).started("a").result("a").model("end_turn");
  expect(next(story.log(), rules())).toEqual({ do: "call_model", message: 5, turn: 3 });
  expect(next(story.model("end_turn").log(), rules())).toMatchObject({ do: "settle", reason: "end_turn" });
});
