import { expect, test } from "vitest";
import { toMessageParams } from "../../../../src/worker/model/message-params.ts";
import { ask } from "./scripted-provider.ts";

const tool = (name: string) => ({ name, description: "d", input_schema: { type: "object" } });
const cached = { type: "ephemeral" };

test("without tools there is no tool choice, and without a system prompt no system block", () => {
  const params = toMessageParams(ask({ system: "" }));
  expect(params).not.toHaveProperty("tools");
  expect(params).not.toHaveProperty("tool_choice");
  expect(params).not.toHaveProperty("system");
});

test("without a system prompt the last tool carries the shared breakpoint", () => {
  const { tools } = toMessageParams(ask({ system: "", tools: [tool("a"), tool("b")] }));
  expect(tools).toEqual([tool("a"), { ...tool("b"), cache_control: cached }]);
});

test("what the call before ended with is a breakpoint: the user's last block before the last answer, unless blank", () => {
  const user = (...texts: string[]) => ({
    role: "user" as const,
    content: texts.map((text) => ({ type: "text", text })),
  });
  const answer = { role: "assistant" as const, content: [{ type: "text", text: "a" }] };
  const messages = [user("one"), answer, user("two", "three"), answer, user("four")];
  const [first, , third, , fifth] = toMessageParams(ask({ messages })).messages;
  expect(first).toEqual(messages[0]);
  expect(third?.content).toEqual([
    { type: "text", text: "two" },
    { type: "text", text: "three", cache_control: cached },
  ]);
  expect(fifth).toEqual(messages[4]);
  const blank = [user("one"), user("two", " "), answer, user("three")];
  expect(toMessageParams(ask({ messages: blank })).messages).toEqual(blank);
});

test("blank text of the assistant, which the API would refuse, is left out; the user's stays, thinking too", () => {
  const blank = { type: "text", text: " \n" };
  const thinking = { type: "thinking", thinking: "", signature: "c2ln" };
  const call = { type: "tool_use", id: "t", name: "n", input: {} };
  const { messages } = toMessageParams(
    ask({
      messages: [
        { role: "user", content: [blank] },
        { role: "assistant", content: [thinking, blank, call] },
      ],
    }),
  );
  expect(messages).toEqual([
    { role: "user", content: [blank] },
    { role: "assistant", content: [thinking, call] },
  ]);
});

test("messages without blank text are passed on by reference, so nothing in them can change", () => {
  const request = ask();
  expect(toMessageParams(request).messages[0]?.content).toBe(request.messages[0]?.content);
});
