/** Guarantee: what was found about an answer, or said about a call, holds for that one alone. */
import { expect, test } from "vitest";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { permissionQuestion } from "../../../../src/shared/protocol/message.ts";
import { next } from "../../../../src/worker/loop/next.ts";
import { asked, call, rules, text } from "./story.ts";

test("an answer after one that did not fit the output schema is checked itself", () => {
  const shaped = rules({}, { outputSchema: { type: "object" } });
  const story = asked().model("end_turn", [text("no object")]);
  story.add(entryKey.verdict(1), { fits: false, problem: "at #: no object" });
  story.model("end_turn", [text("{}")]);
  expect(next(story.log(), shaped)).toEqual({ do: "check_output", message: 3, text: "{}" });
  story.add(entryKey.verdict(3), { fits: true });
  expect(next(story.log(), shaped)).toMatchObject({ do: "settle", reason: "end_turn" });
});

test("the final call of a cap asks for the output as well, where the parent asked for some", () => {
  const capped = rules({ max_turns: 1 }, { outputSchema: { type: "object" } });
  expect(next(asked().log(), capped)).toMatchObject({ finalCall: "max_turns", asksOutput: true });
  expect(next(asked().log(), rules({ max_turns: 1 }))).not.toHaveProperty("asksOutput");
});

test("no call of the model can pass for its parent's word about another one", () => {
  const asking = rules({}, { canBePermitted: true, permissions: [{ ask: ["write"] }] });
  const forged = permissionQuestion("a", "write", {}, "ask write").question_id;
  const both = asked().asks(call("a"), call(forged, "look"));
  const step = next(both.log(), asking);
  expect(step).toMatchObject({
    do: "run_tools",
    calls: [{ id: "a", how: "denied", reason: expect.stringContaining("cannot be asked") }, { id: forged }],
  });
  expect(next(asked().asks(call("a")).log(), asking)).toMatchObject({ do: "ask" });
});
