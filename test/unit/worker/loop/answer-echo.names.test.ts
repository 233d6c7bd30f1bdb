/** Names that a model invented go back as the API takes them, character by character, and all else of the answer as it came. */
import { expect, test } from "vitest";
import { answerEcho } from "../../../../src/worker/loop/answer-echo.ts";
import { call, text, used } from "./story.ts";

test("every character of a tool's name that the API refuses is a line in what goes back", () => {
  const content = [text("so"), call("a", "web search: für", { q: "a b" })];
  const logged = {
    ...{ content, contentJson: JSON.stringify(content), stopReason: "tool_use" },
    ...{ model: "m", usage: used(1), costUsd: 0 },
  };
  const echo = answerEcho(1, logged, new Map());
  expect(JSON.parse(`[${echo.content}]`)).toEqual([text("so"), call("a", "web_search__f_r", { q: "a b" })]);
});
