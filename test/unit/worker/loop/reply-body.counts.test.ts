/** Guarantee: a reply counts what the run has done and got, no more and no less. */
import { expect, test } from "vitest";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { ASK_TOOL } from "../../../../src/shared/protocol/message.ts";
import { replyBody, withQuestions } from "../../../../src/worker/loop/reply-body.ts";
import { asked, call, rules, text, used } from "./story.ts";

test("the summary is that of the last text, also where it was read before", () => {
  const story = asked().asks(text("first"), call("a")).result("a");
  const state = story.log();
  expect(replyBody(state, rules()).summary).toBe("first");
  state.tally.answer({
    message: 3,
    content: [text("second")],
    contentJson: "[]",
    stopReason: "end_turn",
    model: "m",
    usage: used(1),
    costUsd: 0,
  });
  expect(replyBody(state, rules()).summary).toBe("second");
});

test("turns are answers and summaries, and no calls that were paid for in vain", () => {
  const story = asked().broken(5, 0).calls("a");
  story.add(entryKey.compacted(story.n, 1), {
    before: 1,
    summary: "short",
    model: "m",
    usage: used(7),
    cost_usd: 0,
    duration_ms: 1,
  });
  const body = replyBody(story.log(), rules());
  expect(body).toMatchObject({ turns: 2, tokens: 22, compactions: 1 });
  expect(replyBody(asked().calls("a").log(), rules())).not.toHaveProperty("compactions");
});

test("questions that are put now are counted beside those of earlier turns", () => {
  const body = replyBody(asked().asks(call("q", ASK_TOOL)).started("q", ASK_TOOL).result("q").log(), rules());
  expect(body.tools_called).toEqual({ [ASK_TOOL]: 1 });
  const question = (id: string) => ({ question_id: entryKey.call(3, id), text: "Which?" });
  expect(withQuestions(body, [question("r"), question("s")]).tools_called).toEqual({ [ASK_TOOL]: 3 });
});
