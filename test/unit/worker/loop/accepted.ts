/** What the Messages API would say to a conversation. */
import { checkMessages } from "../../../../src/offline/validation.ts";
import { isText } from "../../../../src/shared/protocol/content.ts";
import type { ModelMessage } from "../../../../src/worker/model/model.ts";

const TOOLS = ["look", "write", "constructor"].map((name) => ({ name, input_schema: { type: "object" } }));

/** Why `messages` would be refused or break a promise of `conversation`, or undefined. */
export function problemOf(messages: readonly ModelMessage[]): string | undefined {
  for (const [i, { role, content }] of messages.entries()) {
    if (role === messages[i - 1]?.role) return `messages.${i}: two messages of one role`;
    if (content.length === 0) return `messages.${i}: empty`;
    if (content.some((block) => isText(block) && block.text.trim() === ""))
      return `messages.${i}: blank text`;
    if (role === "assistant" && content.at(-1)?.type === "thinking")
      return `messages.${i}: thinking at the end`;
    if (role === "assistant") continue;
    const answered = content.filter(({ type }) => type === "tool_result").map((block) => block.tool_use_id);
    const asked = (messages[i - 1]?.content ?? [])
      .filter(({ type }) => type === "tool_use")
      .map(({ id }) => id);
    if (answered.join() !== asked.join())
      return `messages.${i}: results of ${answered} for the calls ${asked}`;
  }
  const checked = checkMessages(JSON.stringify({ model: "m", max_tokens: 1, tools: TOOLS, messages }));
  return checked.status === "invalid" ? checked.problem : undefined;
}
