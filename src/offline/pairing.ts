/** The rule that every tool call is answered in the next user message, results first. Pure. */
import { type Block, isToolResult, isToolUse, type Message } from "./wire.ts";

/** Consecutive messages of one role, read as one. `index` is that of the first of them. */
export interface Turn {
  role: Message["role"];
  index: number;
  blocks: Block[];
}

/** Joins consecutive messages of one role, as the API does before it reads them. */
export function joinTurns(messages: readonly Message[]): Turn[] {
  const turns: Turn[] = [];
  messages.forEach((message, index) => {
    const last = turns.at(-1);
    if (last?.role === message.role) last.blocks.push(...message.content);
    else turns.push({ role: message.role, index, blocks: [...message.content] });
  });
  return turns;
}

/** The first violation of the pairing rule as a sentence, or `undefined`. */
export function pairingProblem(turns: readonly Turn[]): string | undefined {
  const seen = new Set<string>();
  let open: string[] = [];
  for (const turn of turns) {
    if (turn.role === "system") continue;
    const problem = turn.role === "assistant" ? callsProblem(turn, seen) : answersProblem(turn, open);
    if (problem !== undefined) return `messages.${turn.index}: ${problem}`;
    open = turn.role === "assistant" ? turn.blocks.filter(isToolUse).map((call) => call.id) : [];
  }
  return open.length === 0 ? undefined : `messages.${turns.at(-1)?.index}: ${unanswered(open)}`;
}

function unanswered(ids: readonly string[]): string {
  return (
    `\`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids.join(", ")}. ` +
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
  );
}

function callsProblem(turn: Turn, seen: Set<string>): string | undefined {
  if (turn.blocks.some(isToolResult)) return "`tool_result` blocks can only be in `user` messages";
  for (const call of turn.blocks.filter(isToolUse)) {
    if (seen.has(call.id)) return `\`tool_use\` ids must be unique, found ${call.id} twice`;
    seen.add(call.id);
  }
  return undefined;
}

function answersProblem(turn: Turn, open: readonly string[]): string | undefined {
  if (turn.blocks.some(isToolUse)) return "`tool_use` blocks can only be in `assistant` messages";
  const answered = turn.blocks.filter(isToolResult).map((result) => result.tool_use_id);
  const stray = answered.filter((id) => !open.includes(id));
  if (stray.length > 0) {
    return (
      `unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${stray.join(", ")}. ` +
      "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
    );
  }
  const twice = answered.find((id, position) => answered.indexOf(id) !== position);
  if (twice !== undefined)
    return `each tool_use must have a single result, found several \`tool_result\` blocks for ${twice}`;
  const missing = open.filter((id) => !answered.includes(id));
  if (missing.length > 0) return unanswered(missing);
  const firstOther = turn.blocks.findIndex((block) => !isToolResult(block));
  const lastResult = turn.blocks.findLastIndex(isToolResult);
  return firstOther >= 0 && firstOther < lastResult
    ? "`tool_result` blocks must come first in the message, before any other content"
    : undefined;
}
