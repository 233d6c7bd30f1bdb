/** Guarantee: what goes back of an answer is taken by the API, and the stub of a result is shorter than what it replaces. */
import { expect, test } from "vitest";
import { answerEcho, isMuteEnd, isWorth, resultBlock } from "../../../../src/worker/loop/answer-echo.ts";
import type { LoggedAnswer } from "../../../../src/worker/loop/log.ts";
import { next } from "../../../../src/worker/loop/next.ts";
import { asked, call, rules, text, used } from "./story.ts";

const answer = (content: LoggedAnswer["content"], contentJson = JSON.stringify(content)): LoggedAnswer => ({
  content,
  contentJson,
  stopReason: "tool_use",
  model: "m",
  usage: used(1),
  costUsd: 0,
});

test("half a character that a provider spelled as an escape goes back as a mark, and so does one of a result", () => {
  const half = "half \ud83d";
  const { content } = answerEcho(
    1,
    answer([text(half)], '[{"type":"text","text":"half \\ud83d"}]'),
    new Map(),
  );
  expect(JSON.parse(content)).toEqual(text("half \ufffd"));
  expect(JSON.parse(resultBlock("a", JSON.stringify(half), false)).content).toBe("half \ufffd");
});

test("the stub of a result is short however long the input of its call is", () => {
  const long = call("a", "write_file", { path: "x", content: "y".repeat(10_000) });
  const [sent] = answerEcho(1, answer([long]), new Map()).calls;
  expect(sent?.stub.length).toBeLessThan(400);
  expect(sent?.stub).toContain("the result of write_file");
  expect(isWorth(1_000, sent?.stub ?? "")).toBe(true);
});

test("a result is left out from 200 characters on that this saves", () => {
  const stub = "s".repeat(100);
  expect([isWorth(299, stub), isWorth(300, stub)]).toEqual([false, true]);
});

test("an empty answer that ended at a stop sequence is asked for its text, as one that ended its turn", () => {
  for (const stopReason of ["end_turn", "stop_sequence"]) {
    expect(isMuteEnd({ stopReason, content: [text(" ")] })).toBe(true);
    expect(isMuteEnd({ stopReason, content: [text("so")] })).toBe(false);
    expect(next(asked().model(stopReason, []).log(), rules())).toMatchObject({
      do: "call_model",
      message: 3,
    });
  }
  expect(isMuteEnd({ stopReason: "max_tokens", content: [] })).toBe(false);
});
