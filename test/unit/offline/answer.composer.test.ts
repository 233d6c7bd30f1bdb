import { describe, expect, it } from "vitest";
import type { AnswerPlan } from "../../../src/offline/answer.ts";
import { compose } from "../../../src/offline/answer.ts";
import { fingerprint } from "../../../src/offline/cache.ts";
import { MessagesRequest } from "../../../src/offline/wire.ts";

const input = { input_tokens: 5, cache_read_input_tokens: 1, cache_creation_input_tokens: 2 };
const text = (words: string): AnswerPlan["content"][number] => ({ type: "text", text: words });

function answer(plan: Partial<AnswerPlan>, change: Record<string, unknown> = {}) {
  const request = MessagesRequest.parse({
    model: "m",
    max_tokens: 100,
    messages: [{ role: "user", content: "hi" }],
    ...change,
  });
  return compose(
    { kind: "answer", content: [text("0123456789")], bounded: true, ...plan },
    request,
    fingerprint(request),
    input,
  );
}

describe("compose", () => {
  it("cuts an answer by rule at max_tokens, between characters, and leaves out a call that does not fit", () => {
    const cut = answer(
      { content: [text("漢字漢字漢字"), { type: "tool_use", name: "glob", input: {} }] },
      { max_tokens: 2 },
    );
    expect(cut).toMatchObject({ stop_reason: "max_tokens", content: [{ text: "漢字" }] });
    expect(cut.content).toHaveLength(1);
  });

  it("ends an answer by rule before the first stop sequence", () => {
    const stopped = answer({}, { stop_sequences: ["8", "34"] });
    expect(stopped).toMatchObject({
      stop_reason: "stop_sequence",
      stop_sequence: "34",
      content: [{ text: "012" }],
    });
  });

  it("leaves a script's answer as it is", () => {
    expect(answer({ bounded: false }, { max_tokens: 1 })).toMatchObject({
      stop_reason: "end_turn",
      content: [{ text: "0123456789" }],
    });
  });

  it("derives the stop reason from the content unless it is given", () => {
    const calls: AnswerPlan["content"] = [{ type: "tool_use", name: "glob", input: {} }];
    expect(answer({ content: calls }).stop_reason).toBe("tool_use");
    expect(answer({ content: calls, stopReason: "max_tokens" }).stop_reason).toBe("max_tokens");
    expect(answer({ stopReason: "refusal" }).stop_details).toEqual({
      type: "refusal",
      category: null,
      explanation: null,
    });
  });

  it("makes ids from the conversation and the position, unless a script gives one", () => {
    const calls: AnswerPlan["content"] = [1, 2].map(() => ({ type: "tool_use", name: "glob", input: {} }));
    const [first, second] = answer({ content: calls }).content;
    expect(first?.id).toMatch(/^toolu_[0-9a-f]{24}$/);
    expect(second?.id).not.toBe(first?.id);
    expect(answer({ content: calls }).content[0]?.id).toBe(first?.id);
    expect(
      answer({ content: [{ type: "tool_use", name: "glob", input: {}, id: "mine" }] }).content[0]?.id,
    ).toBe("mine");
  });

  it("estimates output tokens, never 0, and lets a script override single counts", () => {
    expect(answer({}).usage).toMatchObject({ ...input, output_tokens: 3 });
    expect(answer({ content: [] }).usage.output_tokens).toBe(1);
    expect(answer({ usage: { input_tokens: 9000 } }).usage).toMatchObject({
      input_tokens: 9000,
      output_tokens: 3,
    });
  });
});
