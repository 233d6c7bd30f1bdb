import { expect, test } from "vitest";
import { AnswerDraft } from "../../../../../src/worker/model/anthropic/answer-draft.ts";

test("an answer that goes on after a refusal carries no words about one", () => {
  const draft = new AnswerDraft("m", 100);
  draft.begin({});
  draft.open(0, { type: "text", text: "hello" });
  draft.stop("refusal", { explanation: "not that" });
  expect(draft.finish().refusal).toBe("not that");
  draft.stop("end_turn");
  expect(draft.finish()).toMatchObject({ stopReason: "end_turn", refusal: undefined });
});
