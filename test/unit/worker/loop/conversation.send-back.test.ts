import { expect, test } from "vitest";
import type { ContentBlock } from "../../../../src/shared/protocol/content.ts";
import { answerEcho, type UsedIds } from "../../../../src/worker/loop/answer-echo.ts";
import type { LoggedAnswer } from "../../../../src/worker/loop/log.ts";
import { asked, call, conversation, text, used } from "./story.ts";

const thinking: ContentBlock = { type: "thinking", thinking: "hm", signature: "c2ln" };
const redacted: ContentBlock = { type: "redacted_thinking", data: "x" };

/** What goes back of an answer, in a conversation that has calls with the ids `usedIds` already. */
function sentBack(content: ContentBlock[], usedIds: string[] = []) {
  const story = asked();
  if (usedIds.length > 0) story.asks(...usedIds.map((id) => call(id)));
  const messages = conversation(story.asks(...content).log());
  const mine = messages.slice(usedIds.length > 0 ? 3 : 1);
  const [answer, results] = mine[0]?.role === "assistant" ? mine : [undefined, mine[0]];
  return { content: answer?.content ?? [], results: results?.content ?? [] };
}

test("blocks that nobody interprets go back as they came, in their place", () => {
  const content = [thinking, text(" spaced "), { type: "odd", more: [1] }, call("a"), { type: "odd" }];
  expect(sentBack(content).content).toEqual(content);
});

test("blank text is left out", () => {
  expect(sentBack([thinking, text(""), call("a"), text(" \n\t")]).content).toEqual([thinking, call("a")]);
});

test("thinking at the end is left out, also when only blank text follows it", () => {
  expect(sentBack([text("so"), thinking, redacted]).content).toEqual([text("so")]);
  expect(sentBack([thinking, text("")]).content).toEqual([]);
});

test("every call has one result, in the order of the calls", () => {
  const { results } = sentBack([call("b"), text("and"), call("a")]);
  expect(results.map((result) => result.tool_use_id)).toEqual(["b", "a"]);
});

test("an id that the conversation has already gets another one, in the call and in its result", () => {
  const { content, results } = sentBack([call("a"), call("b"), call("c")], ["a", "c", "c_3"]);
  expect(content.map((block) => block.id)).toEqual(["a_3", "b", "c_4"]);
  expect(results.map((result) => result.tool_use_id)).toEqual(["a_3", "b", "c_4"]);
});

test("an id that was made for a call is used from then on, also where a later call comes with it", () => {
  const { content } = sentBack([call("a"), call("a"), call("a_1"), call("a")]);
  expect(content.map((block) => block.id)).toEqual(["a", "a_1", "a_1_1", "a_2"]);
});

test("a name or an id that the API would refuse goes back spelled so that it does not", () => {
  const odd = { ...call("call:1"), name: "functions.glob" };
  const nameless = { ...call("call_1"), name: "" };
  const long = { ...call("call.1"), name: "x".repeat(200) };
  const { content, results } = sentBack([odd, nameless, long]);
  expect(content).toEqual([
    { ...odd, id: "call_1", name: "functions_glob" },
    { ...nameless, id: "call_1_1", name: "_" },
    { ...long, id: "call_1_2", name: "x".repeat(128) },
  ]);
  expect(results.map((result) => result.tool_use_id)).toEqual(["call_1", "call_1_1", "call_1_2"]);
});

test("of any number of equal ids each costs a step, and none is longer than the API takes", () => {
  let steps = 0;
  class Counting extends Map<string, number> {
    override has(id: string): boolean {
      steps += 1;
      return super.has(id);
    }
  }
  const usedIds: UsedIds = new Counting();
  const sent: string[] = [];
  const [turns, calls] = [30, 200];
  for (let turn = 0; turn < turns; turn++) {
    const ids = Array.from({ length: calls }, (_, i) => (i % 2 === 0 ? "啊" : "y".repeat(256)));
    const content = ids.map((id) => call(id));
    const paid = { stopReason: "tool_use", model: "m", usage: used(1), costUsd: 0 };
    const answer: LoggedAnswer = { ...paid, content, contentJson: JSON.stringify(content) };
    sent.push(...answerEcho(2 * turn + 1, answer, usedIds).calls.map(({ sentId }) => sentId));
  }
  expect(new Set(sent).size).toBe(turns * calls);
  expect(Math.max(...sent.map((id) => id.length))).toBe(256);
  expect(steps).toBeLessThan(3 * turns * calls);
});
