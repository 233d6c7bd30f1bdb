/** Guarantee: an answer that goes on after a pause is one message with what came before the pause: nothing parts the two. */
import { expect, test } from "vitest";
import { makeRoom } from "../../../../src/worker/loop/caps.ts";
import { asked, call, rules, type Story, text } from "./story.ts";

const LONG = "a long word ".repeat(50);

const paused = (story: Story, words: string) => story.model("pause_turn", [text(words)]);

test("the mark of the prompt cache stands at the last message of the user, also behind a pause", () => {
  const story = paused(paused(asked().calls("a"), "first"), "then").calls("b");
  const { messages, cachedLength } = story.log().conversation.request();
  const cached = JSON.parse(`[${messages.slice(0, cachedLength)}]`);
  expect(cached).toHaveLength(3);
  expect(cached.at(-1)).toMatchObject({ role: "user", content: [{ type: "tool_result", tool_use_id: "a" }] });
});

test("a summary stands for no part of an answer that was paused", () => {
  const story = asked().asks(text(LONG), call("a")).result("a", "done");
  for (let k = 0; k < 6; k++) paused(story, `${k} ${LONG}`);
  story.asks(call("b")).result("b", "done");
  expect(makeRoom(story.log(), rules())).toMatchObject({ do: "call_model", compactBefore: 3 });
});
