/**
 * The conversation as the model gets it: JSON text that grows with each answer and is never serialised again. The same
 * log gives the same bytes, whichever process folded it.
 *
 * 1. Roles alternate, no content is empty, every `tool_use` has its `tool_result` in the next message.
 * 2. Within a run, what an answered call sent is the beginning of what the next one sends.
 * 3. A user message is spelled when its answer comes: until then results and words may still be added to it.
 */
import {
  type ContentBlock,
  isText,
  isToolUse,
  type ToolUseBlock,
  textOf,
} from "../../shared/protocol/content.ts";
import { type PartialReason, type StopReason, wellFormedJson } from "../../shared/protocol/reply.ts";
import type { Answer } from "./log.ts";
import { REPETITION_LIMIT, REPETITION_NOTICE } from "./repetition.ts";

const NUDGE = "Your last message was empty. Write your final answer now, as text.";
const REPEATED = `You have made the same tool call ${REPETITION_NOTICE} times in a row. Do something else, or write your final answer.`;
/** The result of the call that completes a forbidden repetition. */
export const REPETITION_REFUSED = `Not executed: this is the same call for the ${REPETITION_LIMIT}th time in a row.`;
const NOT_EXECUTED = JSON.stringify(
  "Not executed: the answer that asked for this call was cut off or the run ended first.",
);

const HAND_BACK: Record<PartialReason, string> & Partial<Record<StopReason, string>> = {
  max_turns: "This is your last turn.",
  max_tokens: "This is your last turn.",
  max_total_tokens: "The token budget of this task is used up.",
  max_cost: "The cost budget of this task is used up.",
  max_duration: "The time for this task is over.",
  context_window: "The conversation has become too long.",
  loop_detected: "You have repeated the same tool call without getting further.",
  invalid_output: "This is your last turn.",
  finished_by_parent: "You were asked to stop working and report.",
};

/** What the model is told of a final answer that does not fit the output schema; `problem`: one clause. */
function correctionPrompt(problem: string): string {
  return `Your last message is not the output that was asked for: ${problem}. Do not call any more tools. Write one JSON value that fits the output schema of your instructions, and nothing around it.`;
}

/** What the hand-back call adds to the conversation. */
export function handBackPrompt(cause: StopReason): string {
  return `${HAND_BACK[cause] ?? HAND_BACK.max_turns} Do not call any more tools. Report what you have found and done so far, and say plainly what is missing.`;
}

/** The messages of one request. */
export interface RequestMessages {
  /** Finished JSON, comma separated, without the brackets. */
  messages: string;
  /** Length of the messages of the last answered call, which ended with a user message; 0 before the first. */
  cachedLength: number;
}

/** A call of an answer on its way back to the model: its id in the conversation, and its result once it has one. */
interface SentCall {
  id: string;
  sentId: string;
  result: string | undefined;
  call: ToolUseBlock;
}

/** A result that was said: where its block begins in the text, and how long it is. */
interface SaidResult extends Pick<SentCall, "sentId" | "call"> {
  message: number;
  at: number;
  length: number;
}

/** What could be left out: the results of calls of message `through` and before, with so many characters. */
export interface Clearable {
  through: number;
  chars: number;
}

/** A result is left out where that spares at least this many characters. */
const WORTH_CHARS = 200;
const GO_ON =
  "Your last message was cut off: the conversation had become too long. Old tool results were left out of it. Go on.";

/** What the next user message says about the last answer. */
interface LastAnswer {
  message: number;
  calls: SentCall[];
  /** It completes the repetition at which the model is told. */
  repeats: boolean;
  /** It ended without a word. */
  isMute: boolean;
}

type Role = "user" | "assistant";

/** See the module's header. Grows in place. */
export class Conversation {
  /** Everything said so far; the last message is still open: its `]}` is missing. */
  #text = "";
  #role: Role | undefined;
  #cachedLength = 0;
  readonly #usedIds = new Set<string>();
  #last: LastAnswer | undefined;
  #notice = "";
  #correction = "";
  #goOn = "";
  #deliveries: string[] = [];
  #beginsRun = false;
  /** Results that have been said and are not left out, oldest first. */
  #results: SaidResult[] = [];

  /** The messages of the next call; `handBack` makes it the last one. */
  request(handBack?: PartialReason): RequestMessages {
    const { text } = joined(this.#text, this.#role, "user", this.#pending(!this.#beginsRun, handBack));
    return { messages: text === "" ? "" : `${text}]}`, cachedLength: this.#cachedLength };
  }

  /** A word of the runtime, at the head of what the next user message says. */
  notice(textJson: string): void {
    this.#notice = textJson;
  }

  /** The last answer does not fit the output schema. The parent's messages, if there are any, are said instead. */
  correct(problem: string): void {
    this.#correction = JSON.stringify(correctionPrompt(problem));
  }

  /**
   * What the parent says, in the next user message: texts as JSON strings, images as finished blocks. `beginsRun`: nothing is
   * said there about earlier runs.
   */
  deliver(partsJson: readonly string[], beginsRun: boolean): void {
    this.#deliveries = [...partsJson];
    this.#beginsRun = beginsRun;
  }

  /**
   * What may be left out: long results of all answers with calls but the last `keep`. Undefined where that is nothing.
   */
  clearable(keep: number): Clearable | undefined {
    const pending = (this.#last?.calls ?? []).flatMap(({ result, sentId, call }) =>
      result === undefined ? [] : { message: this.#last?.message ?? 0, length: result.length, sentId, call },
    );
    const all = [...this.#results, ...pending];
    const turns = [...new Set(all.map(({ message }) => message))];
    const through = turns.at(-1 - keep);
    if (through === undefined) return undefined;
    const chars = all
      .filter(({ message }) => message <= through)
      .reduce((sum, said) => sum + (said.length - (stubFor(said, said.length)?.length ?? said.length)), 0);
    return chars > 0 ? { through, chars } : undefined;
  }

  /** Leaves out what {@link clearable} named; `goesOn`: the model is told to go on with what it was saying. */
  clear(through: number, goesOn: boolean): void {
    let [text, shift] = ["", 0];
    let from = 0;
    const kept: SaidResult[] = [];
    for (const said of this.#results) {
      const { at, length, message } = said;
      const stub = message <= through ? stubFor(said, length) : undefined;
      if (stub !== undefined) {
        text += this.#text.slice(from, at) + stub;
        from = at + length;
        shift += stub.length - length;
      } else kept.push({ ...said, at: at + shift });
    }
    if (from > 0) {
      this.#text = text + this.#text.slice(from);
      this.#results = kept;
      this.#cachedLength = 0;
    }
    for (const call of this.#last && this.#last.message <= through ? this.#last.calls : [])
      if (call.result !== undefined) call.result = stubFor(call, call.result.length) ?? call.result;
    if (goesOn) this.#goOn = JSON.stringify(GO_ON);
  }

  /** The result of a call of the last answer. */
  result(callId: string, contentJson: string, isError: boolean): void {
    const call = this.#last?.calls.find(({ id }) => id === callId);
    if (call) call.result = resultBlock(call.sentId, contentJson, isError);
  }

  /** The pending user message got no answer: what follows is said in the same breath. */
  skip(): void {
    this.#say(this.#pending(false));
    this.#expect(undefined);
  }

  /** The model's answer, as message `message`, to the pending user message. */
  answer(message: number, answer: Answer, about: Pick<LastAnswer, "repeats" | "isMute">): void {
    this.#say(this.#pending(!this.#beginsRun, answer.handBack));
    const { content, calls } = sendBack(message, answer, this.#usedIds);
    if (content !== "" && this.#role === "user") this.#cachedLength = this.#text.length + CLOSING_CHARS;
    this.#add("assistant", content);
    this.#expect({ message, calls, repeats: about.repeats, isMute: about.isMute });
  }

  /** A new user message is pending, after `last`. */
  #expect(last: LastAnswer | undefined): void {
    this.#last = last;
    this.#notice = "";
    this.#correction = "";
    this.#goOn = "";
    this.#deliveries = [];
    this.#beginsRun = false;
  }

  /** The pending user message, which begins with the results: where they stand is kept. */
  #say(blocks: string): void {
    this.#add("user", blocks);
    let at = this.#text.length - blocks.length;
    for (const { sentId, result = notExecuted(sentId), call } of this.#last?.calls ?? []) {
      this.#results.push({ message: this.#last?.message ?? 0, at, length: result.length, sentId, call });
      at += result.length + 1;
    }
  }

  #add(role: Role, blocks: string): void {
    ({ text: this.#text, role: this.#role } = joined(this.#text, this.#role, role, blocks));
  }

  /**
   * What the pending user message holds: results, then words, blank ones left out, for the API refuses blank text.
   * `remarks`: also what the runtime has to say about the last answer.
   */
  #pending(remarks: boolean, handBack?: StopReason): string {
    const blocks = this.#last?.calls.map(({ sentId, result }) => result ?? notExecuted(sentId)) ?? [];
    const say = (textJson: string) => {
      if (!BLANK_JSON.test(textJson)) blocks.push(`{"type":"text","text":${wellFormedJson(textJson)}}`);
    };
    const last = remarks ? this.#last : undefined;
    say(this.#notice);
    if (last?.repeats) say(JSON.stringify(REPEATED));
    if (handBack === undefined) say(this.#goOn);
    for (const partJson of this.#deliveries) {
      if (partJson.startsWith("{")) blocks.push(partJson);
      else say(partJson);
    }
    if (last?.isMute && handBack === undefined && this.#deliveries.length === 0) say(JSON.stringify(NUDGE));
    if (last && handBack === undefined && this.#deliveries.length === 0) say(this.#correction);
    if (handBack !== undefined) say(JSON.stringify(handBackPrompt(handBack)));
    return blocks.join(",");
  }
}

const CLOSING_CHARS = 2;

/** A JSON string of white space alone, or none at all. */
const BLANK_JSON = /^(?:"(?:\s|\\[fnrt]|\\u000b)*")?$/;

/** `text` and behind it `blocks`; of the same role as the last message (after a pause, say) they join it. */
function joined(text: string, last: Role | undefined, role: Role, blocks: string) {
  if (blocks === "") return { text, role: last };
  if (last === role) return { text: `${text},${blocks}`, role };
  return { text: `${text}${last === undefined ? "" : "]},"}{"role":"${role}","content":[${blocks}`, role };
}

function resultBlock(sentId: string, contentJson: string, isError: boolean): string {
  return `{"type":"tool_result","tool_use_id":${JSON.stringify(sentId)},"content":${wellFormedJson(contentJson)}${isError ? ',"is_error":true' : ""}}`;
}

const STUB_INPUT_CHARS = 120;

/** What stands for the result of a call, of so many characters, once it is left out; undefined where that spares too little. */
function stubFor({ call, sentId }: Pick<SentCall, "sentId" | "call">, length: number): string | undefined {
  if (length < WORTH_CHARS) return undefined;
  const stub = stubOf(call, sentId);
  return length - stub.length >= WORTH_CHARS ? stub : undefined;
}

/** What was called, in one line. */
function stubOf({ name, input }: ToolUseBlock, sentId: string): string {
  // Of a long input only what may be shown is taken apart: a code point has at most two units.
  const points = [...(JSON.stringify(input) ?? "").slice(0, 2 * STUB_INPUT_CHARS + 2)];
  const shown = points.slice(0, STUB_INPUT_CHARS).join("") + (points.length > STUB_INPUT_CHARS ? "…" : "");
  const words = `[Left out to make room: the result of ${spelledName({ name })} ${shown}. Call it again if you need it.]`;
  return resultBlock(sentId, JSON.stringify(words), false);
}

function notExecuted(sentId: string): string {
  return resultBlock(sentId, NOT_EXECUTED, true);
}

// An answer on its way back to the model: what the Messages API takes of it, and the ids under which its results follow.

const THINKING: ReadonlySet<string> = new Set(["thinking", "redacted_thinking"]);
/** What the API takes as the name of a tool and as the id of a call: a model can invent a name, a provider an id. */
const FIT_FOR_A_NAME = /^[a-zA-Z0-9_-]+$/;
const NOT_IN_A_NAME = /[^a-zA-Z0-9_-]/g;
const NAME_MAX_CHARS = 128;
/** A surrogate that the provider spelled as an escape, of which it is not known yet whether it is half of a pair. */
const ESCAPED_SURROGATE = /\\u[dD]/;

/**
 * The blocks of `answer` that go back, comma separated ("" when none may), and the ids of its calls. The API wants an id
 * once in a conversation, but not every provider keeps to that: one in `usedIds` gets a suffix; its own ids are added. A
 * name or an id that the API would refuse is spelled so that it does not: the whole conversation would be refused with it.
 */
function sendBack(message: number, answer: Answer, usedIds: Set<string>) {
  const calls: SentCall[] = [];
  let isChanged = ESCAPED_SURROGATE.test(answer.contentJson);
  for (const block of answer.content) {
    if (isToolUse(block)) {
      const sentId = unusedId(block.id, message, usedIds);
      calls.push({ id: block.id, sentId, result: undefined, call: block });
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
  return name === "" ? "_" : name.replace(NOT_IN_A_NAME, "_");
}

function unusedId(id: string, message: number, usedIds: Set<string>): string {
  const wanted = spelled(id);
  let unused = wanted;
  for (let k = message; usedIds.has(unused); k++) unused = `${wanted}_${k}`;
  usedIds.add(unused);
  return unused;
}

/** Whether an answer of the model ends by itself without a word: it is asked for one, unless the parent says something. */
export function isMuteEnd({ stopReason, content }: Pick<Answer, "stopReason" | "content">): boolean {
  const endsNaturally = stopReason === "end_turn" || stopReason === "stop_sequence";
  return endsNaturally && textOf(content).trim() === "";
}
