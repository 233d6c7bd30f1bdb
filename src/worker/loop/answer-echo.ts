/** An answer as it is sent back to the model: the blocks that the Messages API takes, and the results under its ids. Pure. */
import {
  type ContentBlock,
  isText,
  isToolUse,
  type ToolUseBlock,
  textOf,
} from "../../shared/protocol/content.ts";
import { ASK_TOOL } from "../../shared/protocol/message.ts";
import { wellFormedJson } from "../../shared/protocol/reply.ts";
import { clip } from "../../shared/protocol/text.ts";
import type { LoggedAnswer } from "./log.ts";

/** A call of an answer: its id, its id in the conversation (`sentId`), and its result if it has one. */
export interface SentCall {
  id: string;
  sentId: string;
  /** True for a call that may have an effect: it began, and is no question to the parent. */
  hasBegun: boolean;
  isQuestion: boolean;
  result: string | undefined;
  /** Replacement of the result when requests omit it. */
  stub: string;
}

const NOT_EXECUTED = JSON.stringify(
  "Not executed: the answer that asked for this call was cut off or the run ended first.",
);
const CUT_OFF = JSON.stringify(
  "Interrupted: the run ended during this call and its effect is unknown. Check before you repeat it.",
);
/** Ids of the calls in a conversation, each with the last number that it was given as a suffix. */
export type UsedIds = Map<string, number>;

/** Minimum number of characters that omitting a result must save. */
const WORTH_CHARS = 200;

/** Returns a result as a block of the next user message. */
export function resultBlock(sentId: string, contentJson: string, isError: boolean): string {
  return `{"type":"tool_result","tool_use_id":${JSON.stringify(sentId)},"content":${wellFormedJson(contentJson)}${isError ? ',"is_error":true' : ""}}`;
}

const STUB_INPUT_CHARS = 120;

/** Returns the replacement of an omitted result: one line that describes the call. */
function stubOf({ name, input }: ToolUseBlock, sentId: string): string {
  const shown = clip(JSON.stringify(input) ?? "", STUB_INPUT_CHARS);
  const words = `[Left out to make room: the result of ${spelledName({ name })} ${shown}. Call it again if you need it.]`;
  return resultBlock(sentId, JSON.stringify(words), false);
}

/** Returns true if omitting a result of `length` characters for its stub saves enough. */
export function isWorth(length: number, stub: string): boolean {
  return length - stub.length >= WORTH_CHARS;
}

/** Returns the result for a call that has none. */
export function missingResult({ sentId, hasBegun }: SentCall): string {
  return resultBlock(sentId, hasBegun ? CUT_OFF : NOT_EXECUTED, true);
}

const THINKING: ReadonlySet<string> = new Set(["thinking", "redacted_thinking"]);
/** Names of tools and ids of calls that the API takes: a model can invent a name, a provider an id. */
const FIT_FOR_A_NAME = /^[a-zA-Z0-9_-]+$/;
const NAME_MAX_CHARS = 128;
/** A surrogate that the provider spelled as an escape; it may be a lone one. */
const ESCAPED_SURROGATE = /\\u[dD]/;

/**
 * Returns the blocks of `answer` to send back, comma separated ("" if there are none), and its calls. The API wants an id
 * once in a conversation, but some providers repeat ids: one in `usedIds` gets a suffix, and new ids are added. Names and
 * ids that the API would refuse are respelled, because it would refuse the whole conversation.
 */
export function answerEcho(message: number, answer: LoggedAnswer, usedIds: UsedIds) {
  const calls: SentCall[] = [];
  let isChanged = ESCAPED_SURROGATE.test(answer.contentJson);
  for (const block of answer.content) {
    if (isToolUse(block)) {
      const sentId = unusedId(block.id, message, usedIds);
      const [isQuestion, stub] = [block.name === ASK_TOOL, stubOf(block, sentId)];
      calls.push({ id: block.id, sentId, hasBegun: false, isQuestion, result: undefined, stub });
      isChanged ||= sentId !== block.id || spelledName(block) !== block.name;
    } else if (isBlank(block)) isChanged = true;
  }
  isChanged ||= THINKING.has(answer.content.at(-1)?.type ?? "");
  const content = isChanged ? spelledAnew(answer.content, calls) : answer.contentJson.slice(1, -1).trim();
  return { content, calls };
}

/** Serialises the blocks without those that the API refuses: blank text anywhere, and thinking at the end. */
function spelledAnew(content: readonly ContentBlock[], calls: readonly SentCall[]): string {
  const kept = content.filter((block) => !isBlank(block));
  while (THINKING.has(kept.at(-1)?.type ?? "")) kept.pop();
  let position = 0;
  const blocks = kept.map((block) => {
    if (!isToolUse(block)) return block;
    const id = calls[position++]?.sentId ?? block.id;
    return { ...block, id, name: spelledName(block) };
  });
  return wellFormedJson(JSON.stringify(blocks)).slice(1, -1);
}

function isBlank(block: ContentBlock): boolean {
  return isText(block) && block.text.trim() === "";
}

function spelledName({ name }: Pick<ToolUseBlock, "name">): string {
  return spelled(name).slice(0, NAME_MAX_CHARS);
}

function spelled(name: string): string {
  if (FIT_FOR_A_NAME.test(name)) return name;
  return name === "" ? "_" : name.replace(/[^a-zA-Z0-9_-]/g, "_");
}

/** Characters kept of an id before its suffix; the API takes ids of at most 256 characters. */
const ID_STEM_CHARS = 240;
/** Number of an id without a suffix. */
const NO_SUFFIX = -1;

/** Returns the id, with the first free suffix if it is used. Numbers go on where they ended, so each equal id costs one step. */
function unusedId(id: string, message: number, usedIds: UsedIds): string {
  const wanted = spelled(id);
  if (!usedIds.has(wanted)) {
    usedIds.set(wanted, NO_SUFFIX);
    return wanted;
  }
  const stem = wanted.slice(0, ID_STEM_CHARS);
  let k = Math.max(message, (usedIds.get(stem) ?? NO_SUFFIX) + 1);
  while (usedIds.has(`${stem}_${k}`)) k++;
  usedIds.set(stem, k);
  usedIds.set(`${stem}_${k}`, NO_SUFFIX);
  return `${stem}_${k}`;
}

/** Returns true if an answer ends naturally without text: the model is asked for text, unless the parent says something. */
export function isMuteEnd({ stopReason, content }: Pick<LoggedAnswer, "stopReason" | "content">): boolean {
  const endsNaturally = stopReason === "end_turn" || stopReason === "stop_sequence";
  return endsNaturally && textOf(content).trim() === "";
}
