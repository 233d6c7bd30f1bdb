/** An answer on its way back to the model: what the Messages API takes of it, and the results that follow under its ids. Pure. */
import {
  type ContentBlock,
  isText,
  isToolUse,
  type ToolUseBlock,
  textOf,
} from "../../shared/protocol/content.ts";
import { wellFormedJson } from "../../shared/protocol/reply.ts";
import { clip } from "../../shared/protocol/text.ts";
import type { LoggedAnswer } from "./log.ts";

/** A call of an answer: its id in the conversation, and its result once it has one. */
export interface SentCall {
  id: string;
  sentId: string;
  result: string | undefined;
  /** The result that stands for it once it is left out of requests. */
  stub: string;
}

const NOT_EXECUTED = JSON.stringify(
  "Not executed: the answer that asked for this call was cut off or the run ended first.",
);
/** The ids of calls in a conversation, each with the number of the last suffix that it was given. */
export type UsedIds = Map<string, number>;

/** A result is left out where that spares at least this many characters. */
const WORTH_CHARS = 200;

/** A result as a block of the next user message. */
export function resultBlock(sentId: string, contentJson: string, isError: boolean): string {
  return `{"type":"tool_result","tool_use_id":${JSON.stringify(sentId)},"content":${wellFormedJson(contentJson)}${isError ? ',"is_error":true' : ""}}`;
}

const STUB_INPUT_CHARS = 120;

/** What stands for the result of a call that is left out: what was called, in one line. */
function stubOf({ name, input }: ToolUseBlock, sentId: string): string {
  const shown = clip(JSON.stringify(input) ?? "", STUB_INPUT_CHARS);
  const words = `[Left out to make room: the result of ${spelledName({ name })} ${shown}. Call it again if you need it.]`;
  return resultBlock(sentId, JSON.stringify(words), false);
}

/** Whether a result of `length` characters is left out for its stub. */
export function isWorth(length: number, stub: string): boolean {
  return length - stub.length >= WORTH_CHARS;
}

/** The result of a call that has none. */
export function notExecuted(sentId: string): string {
  return resultBlock(sentId, NOT_EXECUTED, true);
}

const THINKING: ReadonlySet<string> = new Set(["thinking", "redacted_thinking"]);
/** What the API takes as the name of a tool and as the id of a call: a model can invent a name, a provider an id. */
const FIT_FOR_A_NAME = /^[a-zA-Z0-9_-]+$/;
const NAME_MAX_CHARS = 128;
/** A surrogate that the provider spelled as an escape, of which it is not known yet whether it is half of a pair. */
const ESCAPED_SURROGATE = /\\u[dD]/;

/**
 * The blocks of `answer` that go back, comma separated ("" when none may), and the ids of its calls. The API wants an id
 * once in a conversation, but not every provider keeps to that: one in `usedIds` gets a suffix; its own ids are added. A
 * name or an id that the API would refuse is spelled so that it does not: the whole conversation would be refused with it.
 */
export function answerEcho(message: number, answer: LoggedAnswer, usedIds: UsedIds) {
  const calls: SentCall[] = [];
  let isChanged = ESCAPED_SURROGATE.test(answer.contentJson);
  for (const block of answer.content) {
    if (isToolUse(block)) {
      const sentId = unusedId(block.id, message, usedIds);
      calls.push({ id: block.id, sentId, result: undefined, stub: stubOf(block, sentId) });
      isChanged ||= sentId !== block.id || spelledName(block) !== block.name;
    } else if (isBlank(block)) isChanged = true;
  }
  isChanged ||= THINKING.has(answer.content.at(-1)?.type ?? "");
  const content = isChanged ? spelledAnew(answer.content, calls) : answer.contentJson.slice(1, -1).trim();
  return { content, calls };
}

/** Blank text is refused anywhere in a message, thinking at its end. */
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

/** The API takes ids of at most 256 characters; this much of one leaves room for the suffix. */
const ID_STEM_CHARS = 240;
/** The number of an id that was given no suffix yet. */
const NO_SUFFIX = -1;

/** The id, or with the first suffix that is free. Numbers go on where they ended: any number of equal ids costs a step each. */
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

/** Whether an answer of the model ends by itself without a word: it is asked for one, unless the parent says something. */
export function isMuteEnd({ stopReason, content }: Pick<LoggedAnswer, "stopReason" | "content">): boolean {
  const endsNaturally = stopReason === "end_turn" || stopReason === "stop_sequence";
  return endsNaturally && textOf(content).trim() === "";
}
