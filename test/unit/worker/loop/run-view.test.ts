import { describe, expect, test } from "vitest";
import { viewRun } from "../../../../src/worker/loop/run-view.ts";
import { asked, call, Story, text } from "./story.ts";

describe("viewRun", () => {
  test("before anything was delivered the first message is the next one", () => {
    const view = { firstMessage: undefined, turns: [], userMessage: 0, delivered: false };
    expect(viewRun(new Story().log())).toEqual(view);
  });

  test("shows the turns with what became of their calls", () => {
    const story = asked()
      .asks(text("a"), call("x"), text("b"), call("y"), call("z"))
      .started("x")
      .started("y")
      .result("x");
    const view = viewRun(story.log());
    expect(view).toMatchObject({ firstMessage: 0, userMessage: 2, delivered: false });
    expect(view.turns[0]).toMatchObject({
      message: 1,
      text: "ab",
      calls: [
        { id: "x", started: true, result: { content: "result of x" } },
        { id: "y", started: true, result: undefined },
        { id: "z", started: false, result: undefined },
      ],
    });
  });

  test("a message delivered after the last turn waits for the model", () => {
    expect(viewRun(asked().calls("a").user("more").log())).toMatchObject({ userMessage: 2, delivered: true });
  });

  test("the turns of other runs are not this one's", () => {
    const story = asked()
      .model("end_turn", [text("one")])
      .nextRun()
      .user("next")
      .model("end_turn", [text("two")]);
    expect(viewRun(story.log()).turns.map((turn) => turn.text)).toEqual(["two"]);
    expect(viewRun(story.log({ run: 3 }))).toMatchObject({
      firstMessage: undefined,
      turns: [],
      userMessage: 4,
    });
  });

  test.each<[string, Story, number]>([
    ["an answer", asked().model("end_turn", [text("one")]), 2],
    ["a message without an answer", asked(), 2],
    ["a failure", asked().failure("context_window"), 2],
    ["a failure after tool results", asked().calls("a").failure("model_error", "max_turns"), 4],
    ["a call paid for in vain after tool results", asked().calls("a").purchase(1, 0), 4],
  ])("the next run starts after %s of the last one", (_, story, userMessage) => {
    expect(viewRun(story.nextRun().log())).toMatchObject({ userMessage, delivered: false });
  });

  test("a notice stays with the message that the next run begins with", () => {
    const story = asked()
      .model("end_turn", [text("one")])
      .nextRun()
      .notice("files gone");
    expect(viewRun(story.log()).userMessage).toBe(2);
  });
});
