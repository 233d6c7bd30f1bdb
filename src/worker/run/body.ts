/** What a model said and what a run has come to, as others may see it. Pure. */
import { ContentBlock, isToolUse } from "../../shared/protocol/content.ts";
import { ASK_TOOL, isPermissionQuestion, type OpenQuestion } from "../../shared/protocol/message.ts";
import { type ReplyBody, wellFormedJson } from "../../shared/protocol/reply.ts";
import { withoutSecrets, withoutSecretsIn } from "../../shared/secrets.ts";
import type { Rules } from "../loop/reply-body.ts";
import type { RunState } from "../loop/state.ts";
import type { ModelAnswer } from "../model/model.ts";

/** The text of the summary where `body` had to cut it; "" else. */
export function wholeTextOf(body: ReplyBody, { tally }: RunState, { outputSchema }: Rules): string {
  if (!body.truncated) return "";
  return outputSchema ? tally.text : tally.report;
}

/** Deeper than any block of an answer. */
const BLOCK_DEPTH = 128;

/**
 * The answer without the secrets of this process, wherever its model has read them: neither the log holds them nor what
 * follows from it, and no tool is given them. Thinking is signed and comes back whole or not at all: where a block of it
 * holds a secret, all of it is left out.
 */
export function shownAnswer(answer: ModelAnswer): ModelAnswer {
  const { stopReason, model } = answer;
  const named = { stopReason: withoutSecrets(stopReason), model: withoutSecrets(model) };
  // Text by text: JSON would spell once more what already is JSON within JSON.
  const shown = answer.content.map((block) => withoutSecretsIn(block, BLOCK_DEPTH));
  if (answer.content.every((block, i) => block === shown[i])) return { ...answer, ...named };
  const hidesThinking = answer.content.some((block, i) => isSigned(block) && block !== shown[i]);
  const ids = new Map<string, string>();
  const content = answer.content.flatMap((block, i): ContentBlock[] => {
    if (hidesThinking && isSigned(block)) return [];
    const clean = ContentBlock.parse(shown[i]);
    if (!isToolUse(block) || !isToolUse(clean)) return [clean];
    const id = clean.id === block.id ? block.id : unusedId(answer, ids);
    ids.set(block.id, id);
    return [{ ...clean, id }];
  });
  const refused = [...answer.refusedCalls].map(([id, why]) => [ids.get(id) ?? id, why] as const);
  const json = wellFormedJson(JSON.stringify(content));
  return { ...answer, ...named, content, contentJson: json, refusedCalls: new Map(refused) };
}

function isSigned(block: ContentBlock): boolean {
  return block.type === "thinking" || block.type === "redacted_thinking" || "signature" in block;
}

function unusedId({ content }: ModelAnswer, given: ReadonlyMap<string, string>): string {
  const taken = new Set([...content.map((block) => block.id), ...given.values()]);
  let k = 1;
  while (taken.has(`call_${k}`)) k += 1;
  return `call_${k}`;
}

/** `body` with these questions counted as calls; one about a permission is none: the call it is about counts when it begins. */
export function withQuestions(body: ReplyBody, questions: readonly OpenQuestion[]): ReplyBody {
  const put = questions.filter((question) => !isPermissionQuestion(question)).length;
  if (put === 0) return body;
  const asked = (body.tools_called[ASK_TOOL] ?? 0) + put;
  return { ...body, tools_called: { ...body.tools_called, [ASK_TOOL]: asked } };
}
