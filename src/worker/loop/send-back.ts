/**
 * An answer of the model on its way back to it: what the Messages API takes of it, and the tool results that must
 * follow. Both halves of a call are written here, so that their ids always pair.
 */
import { type ContentBlock, isText, isToolUse, type ToolResultBlock } from "../../shared/protocol/content.ts";
import type { ToolCall, Turn } from "./run-view.ts";

const THINKING: ReadonlySet<string> = new Set(["thinking", "redacted_thinking"]);
const NOT_EXECUTED = "Not executed: the answer that asked for this call was cut off or the run ended first.";

/** What the API takes as the name of a tool and as the id of a call: a model can invent a name, a provider an id. */
const NOT_IN_A_NAME = /[^a-zA-Z0-9_-]/g;
const NAME_MAX_CHARS = 128;

/** The assistant message (empty when nothing of it may be sent) and the results, in the order of the calls. */
export interface SentBack {
  content: ContentBlock[];
  results: ToolResultBlock[];
}

/**
 * What goes back of `turn`. The API wants an id once in a conversation, but not every provider keeps to that:
 * one that stands in `usedIds` already gets a suffix. Adds its own ids to `usedIds`. A name or an id that the API would
 * refuse is spelled so that it does not: the whole conversation would be refused with it, now and ever after.
 */
export function sendBack(turn: Turn, usedIds: Set<string>): SentBack {
  const ids = turn.calls.map((call) => unusedId(call.id, turn.message, usedIds));
  let position = 0;
  return {
    content: acceptable(turn.entry.content).map((block) => {
      if (!isToolUse(block)) return block;
      const id = ids[position++] ?? block.id;
      const name = spelled(block.name).slice(0, NAME_MAX_CHARS);
      return id === block.id && name === block.name ? block : { ...block, id, name };
    }),
    results: turn.calls.map((call, i) => resultOf(call, ids[i] ?? call.id)),
  };
}

/** Blank text is refused anywhere in a message, thinking at its end. */
function acceptable(content: readonly ContentBlock[]): ContentBlock[] {
  const kept = content.filter((block) => !isText(block) || block.text.trim() !== "");
  while (THINKING.has(kept.at(-1)?.type ?? "")) kept.pop();
  return kept;
}

function spelled(name: string): string {
  return name === "" ? "_" : name.replace(NOT_IN_A_NAME, "_");
}

function unusedId(id: string, message: number, usedIds: Set<string>): string {
  const wanted = spelled(id);
  let unused = wanted;
  for (let k = message; usedIds.has(unused); k++) unused = `${wanted}_${k}`;
  usedIds.add(unused);
  return unused;
}

function resultOf({ result }: ToolCall, id: string): ToolResultBlock {
  const isError = result?.is_error ?? true;
  return {
    type: "tool_result",
    tool_use_id: id,
    content: result?.content ?? NOT_EXECUTED,
    ...(isError && { is_error: true }),
  };
}
