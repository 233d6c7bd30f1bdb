/** Questions to the parent, as the loop plans them. */
import { describe, expect, test } from "vitest";
import type { JsonObject } from "../../../../src/shared/protocol/content.ts";
import { next } from "../../../../src/worker/loop/next.ts";
import { asked, call, rules } from "./story.ts";

const CAN_ASK = rules({}, { canAsk: true, idempotentTools: new Set(["look", "ask_parent"]) });
const question = (id: string, input: JsonObject = { question: `${id}?` }) => call(id, "ask_parent", input);
const hows = (log: Parameters<typeof next>[0], by = CAN_ASK) => {
  const step = next(log, by);
  return step.do === "run_tools" ? step.calls.map(({ id, how }) => `${id} ${how}`) : step;
};

describe("a question", () => {
  test("is asked when it is all that is left of the turn, together with the others", () => {
    const log = asked()
      .asks(question("a"), question("b", { question: "b?", default_answer: "b!" }))
      .log();
    expect(next(log, CAN_ASK)).toEqual({
      do: "ask",
      turn: 1,
      questions: [
        { question_id: "1/a", text: "a?" },
        { question_id: "1/b", text: "b?", default_answer: "b!" },
      ],
    });
  });

  test("waits until every other call of the turn has its result", () => {
    const story = asked().asks(question("a"), call("w"), call("l", "look"));
    expect(hows(story.log())).toEqual(["w run", "l run"]);
    expect(hows(story.started("w").log())).toEqual(["w interrupted", "l run"]);
    story.result("w").started("l", "look").result("l");
    expect(next(story.log(), CAN_ASK)).toMatchObject({ do: "ask", questions: [{ question_id: "1/a" }] });
  });

  test("that has its answer is followed by the next call", () => {
    const story = asked().asks(question("a")).started("a", "ask_parent").result("a", "yes");
    expect(next(story.log(), CAN_ASK)).toEqual({ do: "call_model", message: 3, turn: 2 });
  });

  test("is none where the parent cannot be asked, or where the input holds none: the tool says so", () => {
    expect(hows(asked().asks(question("a")).log(), rules())).toEqual(["a run"]);
    for (const input of [{}, { question: " " }, { question: 1 }, { question: "x".repeat(5_001) }]) {
      expect(hows(asked().asks(question("a", input)).log())).toEqual(["a run"]);
      const begun = asked().asks(question("a", input)).started("a", "ask_parent");
      expect(hows(begun.log()), "begun and broken off").toEqual(["a run"]);
    }
  });

  test("stays unanswered when its parent wants an end, asked already or not", () => {
    const story = asked().asks(question("a"), question("b"));
    expect(hows(story.log({ finish: true }))).toEqual(["a unanswered", "b unanswered"]);
    story.started("a", "ask_parent").started("b", "ask_parent").result("a");
    expect(hows(story.log({ finish: true }))).toEqual(["b unanswered"]);
    expect(next(story.result("b").log({ finish: true }), CAN_ASK)).toMatchObject({
      do: "call_model",
      finalCall: "finished_by_parent",
    });
  });

  test("put for the fifth time in a row is refused as any call", () => {
    const story = asked();
    const input = { question: "Which?" };
    for (const id of ["a", "b", "c", "d"]) story.calls(id, "ask_parent", input);
    expect(hows(story.asks(question("e", input)).log())).toEqual(["e repeated"]);
  });

  test("is not asked when no call may follow that would read the answer", () => {
    const log = asked().asks(question("a")).log({ elapsedMs: 1_800_000 });
    expect(next(log, CAN_ASK)).toEqual({ do: "settle", reason: "max_duration", natural: false });
    const last = rules({ max_turns: 2 }, { canAsk: true });
    expect(next(asked().asks(question("a")).log(), last)).toMatchObject({ do: "ask" });
  });

  test.for([
    { permissions: [{ deny: ["ask_parent"] }], said: "deny ask_parent" },
    { permissions: [{ deny: ["AskUserQuestion"] }], said: "deny AskUserQuestion" },
    { permissions: [{ allow: ["read_file"] }], said: "default" },
    { permissions: [{ deny: ["ask_parent(*secret*)"] }], said: "deny ask_parent(*secret*)" },
  ])("that a rule refuses is not asked: $said", ({ permissions, said }) => {
    const log = asked()
      .asks(question("a", { question: "What is it?", default_answer: "a secret" }), call("l", "read_file"))
      .log();
    const step = next(log, { ...CAN_ASK, permissions });
    expect(step).toMatchObject({
      do: "run_tools",
      calls: [
        { id: "a", how: "denied", reason: `Not permitted (${said}). Go on without it.` },
        { id: "l", how: "run" },
      ],
    });
  });

  test.for([
    { permissions: [{ allow: ["read_file", "ask_parent"] }] },
    { permissions: [{ ask: ["ask_parent"] }] },
    { permissions: [{ ask: ["*"] }] },
    { permissions: [{ default: "ask" as const }] },
  ])("is asked where rules permit it, or would have the parent asked: $permissions", ({ permissions }) => {
    const rules = { ...CAN_ASK, permissions, canBePermitted: true };
    expect(next(asked().asks(question("a")).log(), rules)).toMatchObject({
      do: "ask",
      questions: [{ question_id: "1/a", text: "a?" }],
    });
  });
});

test("a call that needs its parent's word is not asked about when its parent wants an end", () => {
  const rules = { ...CAN_ASK, permissions: [{ ask: ["write"] }], canBePermitted: true };
  const story = asked().asks(call("a"));
  expect(next(story.log(), rules)).toMatchObject({ do: "ask" });
  expect(hows(story.log({ finish: true }), rules)).toEqual(["a unanswered"]);
});
