/**
 * The conversation as the model gets it: JSON text that grows with each answer and is never serialised again. The same log
 * gives the same bytes in every process.
 *
 * 1. Roles alternate, no content is empty, every `tool_use` has its `tool_result` in the next message.
 * 2. Within a run, the messages of an answered call are the beginning of the messages of the next one.
 * 3. A summary replaces everything before an answer of the model: no call is parted from its result.
 * 4. A user message is spelled when its answer comes: until then results and texts may still be added to it.
 */
import { type CapReason, type StopReason, wellFormedJson } from "../../shared/protocol/reply.ts";
import {
  answerEcho,
  isWorth,
  missingResult,
  resultBlock,
  type SentCall,
  type UsedIds,
} from "./answer-echo.ts";
import type { LoggedAnswer } from "./log.ts";
import { REPETITION_LIMIT, REPETITION_NOTICE } from "./tally.ts";
import { BYTES_PER_TOKEN, tokensIn } from "./tokens.ts";

const NUDGE = "Your last message was empty. Write your final answer now, as text.";
const REPEATED = `You have made the same tool call ${REPETITION_NOTICE} times in a row. Do something else, or write your final answer.`;
/** Result of the call that completes a forbidden repetition. */
export const REPETITION_REFUSED = `Not executed: this is the same call for the ${REPETITION_LIMIT}th time in a row.`;

const FINAL_CALL: Readonly<Record<CapReason, string> & Partial<Record<StopReason, string>>> = {
  max_turns: "This is your last turn.",
  max_total_tokens: "The token budget of this task is used up.",
  max_cost: "The cost budget of this task is used up.",
  max_duration: "The time for this task is over.",
  context_window: "The conversation has become too long.",
  loop_detected: "You have repeated the same tool call without getting further.",
  finished_by_parent: "You were asked to stop working and report.",
};

/** Returns the text for the model after a final answer that does not fit the output schema; `problem`: one clause. */
function correctionPrompt(problem: string): string {
  return `Your last message is not the output that was asked for: ${problem}. Do not call any more tools. Write one JSON value that fits the output schema of your instructions, and nothing around it.`;
}

/** Returns the text that the final call adds to the conversation. */
export function finalCallPrompt(cause: StopReason): string {
  return `${FINAL_CALL[cause] ?? FINAL_CALL.max_turns} Do not call any more tools. Report what you have found and done so far, and say plainly what is missing.`;
}

/** The messages of one request. */
export interface RequestMessages {
  /** Finished JSON, comma separated, without the brackets. */
  messages: string;
  /** Length of the messages of the previous answered call, which ended with a user message; 0 before the first. */
  cachedLength: number;
}

/** A result in the text: the position and length of its block. */
interface SaidResult {
  message: number;
  at: number;
  length: number;
  stub: string;
}

/**
 * Returns `places` as they are after a stub has replaced each of the results `leftOut`. Both lists are sorted by `at`, and it
 * walks each only once, because each claim of the agent does it again.
 */
export function shiftedBehind<T extends { at: number }>(
  places: readonly T[],
  leftOut: readonly Pick<SaidResult, "at" | "length" | "stub">[],
): T[] {
  let [next, shift] = [0, 0];
  return places.map((place) => {
    for (let said = leftOut[next]; said && said.at < place.at; said = leftOut[next]) {
      shift += said.stub.length - said.length;
      next += 1;
    }
    return { ...place, at: place.at + shift };
  });
}

/** Results that can be omitted: those of calls up to message `through`; `chars`: characters that this saves. */
export interface Clearable {
  through: number;
  chars: number;
}

const GO_ON =
  "Your last message was cut off: the conversation had become too long. What is old was left out of it. Go on.";
const SUM_UP = `Stop here: this conversation has become too long, and all of it but the task will be left out. Do not call any tools. Write what is to stand in its place, for yourself: what you were asked, every later word of your parent that still holds, what you have found and done (with the names, paths and figures that you need to go on), what failed, and what is still open. Be complete and brief.`;

/** Returns the text that replaces the summarised messages. */
function summaryText(summary: string): string {
  return `[This conversation had become too long: what came before is left out. Your own summary of it:]\n\n${summary}\n\n[What came after it follows.]`;
}

/** Share of the text that the first try summarises; the next try summarises this share of a try that was too long. */
const SUMMED_SHARE = 0.75;
/** Minimum share of the text that a summary must replace: the next turns would fill the room of a smaller one at once. */
const WORTH_SUMMING_SHARE = 0.1;

/** An answer before which the text may be cut, and the position of its message. */
interface Cut {
  message: number;
  at: number;
}

/** Returns the calls by their ids, of several with one id the first: an answer may have a thousand, each with two entries. */
export function byId<Call extends { id: string }>(calls: readonly Call[]): ReadonlyMap<string, Call> {
  return new Map(calls.toReversed().map((call) => [call.id, call]));
}

/** Remarks about the last answer in the next user message. */
interface PendingRemarks {
  message: number;
  calls: SentCall[];
  /** True if it completes so many identical calls that the model is told. */
  repeats: boolean;
  /** True if it ended without text. */
  isMute: boolean;
}

type Role = "user" | "assistant";

const NO_NOTICES: readonly string[] = [];

/** See the module's header. Grows in place. */
export class Conversation {
  /** All messages so far; the last one is still open: its `]}` is missing. */
  #text = "";
  #role: Role | undefined;
  #cachedLength = 0;
  readonly #usedIds: UsedIds = new Map();
  #last: PendingRemarks | undefined;
  #callById: ReadonlyMap<string, SentCall> = new Map();
  #notices = NO_NOTICES;
  #correction = "";
  #goOn = "";
  #deliveries: readonly string[] = [];
  #beginsRun = false;
  /** Results in the text that are not omitted, oldest first. */
  #results: SaidResult[] = [];
  /** Omitted results whose stubs the text does not have yet, oldest first, and the characters that these will save. */
  #leftOut: SaidResult[] = [];
  #unsavedChars = 0;
  /** Characters that the text has lost since the last answer. */
  #sparedChars = 0;
  /** Answers before which the text may still be cut, oldest first. */
  #cuts: Cut[] = [];
  /** Approximate number of tokens that summaries have saved. */
  summedUpTokens = 0;
  /** Blocks with which the run began, and the number of their message. */
  #opening = { message: 0, blocks: "" };

  /** Returns the messages of the next call; `finalCall` makes it the final call. */
  request(finalCall?: CapReason): RequestMessages {
    this.#writeStubs();
    const { text } = joined(this.#text, this.#role, "user", this.#pending(!this.#beginsRun, finalCall));
    return { messages: text === "" ? "" : `${text}]}`, cachedLength: this.#cachedLength };
  }

  /** Returns the messages of a call; `compactBefore`: the call buys a summary of the messages before that one. */
  messagesOf(call: { finalCall?: CapReason; compactBefore?: number | undefined }): RequestMessages {
    return call.compactBefore === undefined
      ? this.request(call.finalCall)
      : this.summaryRequest(call.compactBefore);
  }

  /** Adds a notice of the runtime to the beginning of the next user message. Sorted, because the log has several in any order. */
  notice(textJson: string): void {
    this.#notices = [...this.#notices, textJson].sort();
  }

  /** Sets the correction of an answer that does not fit the output schema. The parent's messages replace it, if there are any. */
  correct(problem: string): void {
    this.#correction = JSON.stringify(correctionPrompt(problem));
  }

  /**
   * Sets the parent's messages in the next user message, with number `message`: texts as JSON strings, images as finished
   * blocks. `beginsRun`: the message has no remarks about earlier runs, and is repeated beside a summary.
   */
  deliver(message: number, partsJson: readonly string[], beginsRun: boolean): void {
    this.#deliveries = partsJson;
    this.#beginsRun = beginsRun;
    if (beginsRun) this.#opening = { message, blocks: partsJson.flatMap(spoken).join(",") };
  }

  /** Returns the results that can be omitted: long ones of all answers with calls but the last `keep`. Undefined: none. */
  clearable(keep: number): Clearable | undefined {
    const pending = (this.#last?.calls ?? []).flatMap(({ result, stub }) =>
      result === undefined ? [] : { message: this.#last?.message ?? 0, length: result.length, stub },
    );
    const all = [...this.#results, ...pending];
    const turns = [...new Set(all.map(({ message }) => message))];
    const through = turns.at(-1 - keep);
    if (through === undefined) return undefined;
    const chars = all
      .filter(({ message, length, stub }) => message <= through && isWorth(length, stub))
      .reduce((sum, { length, stub }) => sum + length - stub.length, 0);
    return chars > 0 ? { through, chars } : undefined;
  }

  /** Returns by how many tokens the next prompt is longer than the last one and its answer, about; negative if it is shorter. */
  addedTokens(): number {
    const said = [...(this.#last?.calls ?? []).map(({ result }) => result ?? ""), ...this.#deliveries];
    return said.reduce((sum, json) => sum + tokensIn(json), 0) - this.#sparedChars / BYTES_PER_TOKEN;
  }

  /** Omits the results that {@link clearable} named; `goesOn`: the model is told to continue its text. */
  clear(through: number, goesOn: boolean): void {
    const kept: SaidResult[] = [];
    for (const said of this.#results) {
      const { message, length, stub } = said;
      const isLeftOut = message <= through && isWorth(length, stub);
      (isLeftOut ? this.#leftOut : kept).push(said);
      if (!isLeftOut) continue;
      this.#unsavedChars += length - stub.length;
      this.#sparedChars += length - stub.length;
    }
    if (kept.length < this.#results.length) this.#cachedLength = 0;
    this.#results = kept;
    // Each claim replays all omissions. To rewrite the text after each of them would take seconds.
    if (2 * this.#unsavedChars > this.#text.length) this.#writeStubs();
    for (const call of this.#last && this.#last.message <= through ? this.#last.calls : [])
      if (call.result !== undefined && isWorth(call.result.length, call.stub)) call.result = call.stub;
    if (goesOn) this.#goOn = JSON.stringify(GO_ON);
  }

  /** Puts the stubs of the omitted results into the text. Call it before the text or a position in it is read. */
  #writeStubs(): void {
    const leftOut = this.#leftOut;
    if (leftOut.length === 0) return;
    let [text, from] = ["", 0];
    for (const { at, length, stub } of leftOut) {
      text += this.#text.slice(from, at) + stub;
      from = at + length;
    }
    this.#text = text + this.#text.slice(from);
    this.#results = shiftedBehind(this.#results, leftOut);
    this.#cuts = shiftedBehind(this.#cuts, leftOut);
    for (const { at } of shiftedBehind([{ at: this.#cachedLength }], leftOut)) this.#cachedLength = at;
    this.#leftOut = [];
    this.#unsavedChars = 0;
  }

  /**
   * Returns the answer before which to cut: the last that leaves room for the summary; after a failed try, one before
   * `below`. Undefined if that would make no room.
   */
  compactable(below: number): number | undefined {
    const total = this.request().messages.length;
    const worth = this.#cuts.filter(
      (cut) => cut.message < below && this.#sparedBy(cut) >= WORTH_SUMMING_SHARE * total,
    );
    const failed = this.#cuts.find(({ message }) => message === below);
    const most = SUMMED_SHARE * (failed?.at ?? total);
    return (worth.findLast(({ at }) => at <= most) ?? worth[0])?.message;
  }

  /** Returns the messages of the call that buys a summary of the messages before message `before`. */
  summaryRequest(before: number): RequestMessages {
    this.#writeStubs();
    const at = this.#cuts.find(({ message }) => message === before)?.at ?? 0;
    const { text } = joined(this.#text.slice(0, at), "user", "user", textBlock(JSON.stringify(SUM_UP)));
    return { messages: `${text}]}`, cachedLength: 0 };
  }

  /** Returns true if `summary` is shorter than the text that it would replace. */
  isShorter(before: number, summary: string): boolean {
    this.#writeStubs();
    const cut = this.#cuts.find(({ message }) => message === before);
    return cut !== undefined && JSON.stringify(summaryText(summary)).length < this.#sparedBy(cut);
  }

  /** Replaces the messages before message `before` by `summary`, unless a later one already does; the run's first messages stay. */
  compact(before: number, summary: string, goesOn: boolean): void {
    if (goesOn) this.#goOn = JSON.stringify(GO_ON);
    this.#writeStubs();
    const cut = this.#cuts.find(({ message }) => message === before);
    if (!cut) return;
    const opening = this.#opening.message < before ? [this.#opening.blocks] : [];
    const blocks = [...opening, textBlock(JSON.stringify(summaryText(summary)))].filter(Boolean).join(",");
    const { text } = joined("", undefined, "user", blocks);
    const shift = text.length - cut.at;
    this.summedUpTokens += Math.round(Math.max(0, -shift) / BYTES_PER_TOKEN);
    this.#sparedChars -= shift;
    const shifted = <T extends Cut>(each: T) => ({ ...each, at: each.at + shift });
    this.#text = text + this.#text.slice(cut.at);
    this.#results = this.#results.filter(({ message }) => message >= before).map(shifted);
    this.#cuts = this.#cuts.filter(({ message }) => message > before).map(shifted);
    this.#cachedLength = 0;
  }

  #sparedBy({ message, at }: Cut): number {
    const opening = this.#opening.message < message ? this.#opening.blocks : "";
    return at - joined("", undefined, "user", opening || "{}").text.length;
  }

  /** Notes that a call of the last answer begins: if it gets no result, the model is told that its effect is unknown. */
  begin(callId: string): void {
    const call = this.#callById.get(callId);
    if (call) call.hasBegun = !call.isQuestion;
  }

  /** Sets the result of a call of the last answer. */
  result(callId: string, contentJson: string, isError: boolean): void {
    const call = this.#callById.get(callId);
    if (call) call.result = resultBlock(call.sentId, contentJson, isError);
  }

  /** Ends the pending user message without an answer: the next one joins it. */
  skip(): void {
    this.#say(this.#pending(false));
    this.#expect(undefined);
  }

  /** Adds the pending user message, and the model's answer to it as message `message`. */
  answer(message: number, answer: LoggedAnswer, about: Pick<PendingRemarks, "repeats" | "isMute">): void {
    this.#say(this.#pending(!this.#beginsRun, answer.finalCall));
    const { content, calls } = answerEcho(message, answer, this.#usedIds);
    if (content !== "" && this.#role === "user") {
      this.#cachedLength = this.#text.length + CLOSING_CHARS;
      this.#cuts.push({ message, at: this.#text.length });
    }
    this.#add("assistant", content);
    this.#expect({ message, calls, repeats: about.repeats, isMute: about.isMute });
  }

  /** Begins a new pending user message after `last`. */
  #expect(last: PendingRemarks | undefined): void {
    this.#last = last;
    this.#callById = byId(last?.calls ?? []);
    this.#notices = NO_NOTICES;
    this.#correction = "";
    this.#goOn = "";
    this.#deliveries = [];
    this.#beginsRun = false;
    this.#sparedChars = 0;
  }

  /** Adds the pending user message, which begins with the results, and keeps their positions. */
  #say(blocks: string): void {
    this.#add("user", blocks);
    let at = this.#text.length - blocks.length;
    for (const call of this.#last?.calls ?? []) {
      const { length } = call.result ?? missingResult(call);
      this.#results.push({ message: this.#last?.message ?? 0, at, length, stub: call.stub });
      at += length + 1;
    }
  }

  #add(role: Role, blocks: string): void {
    ({ text: this.#text, role: this.#role } = joined(this.#text, this.#role, role, blocks));
  }

  /**
   * Returns the blocks of the pending user message: results, then texts that are not blank, because the API refuses blank
   * text. `remarks`: also the runtime's remarks about the last answer.
   */
  #pending(remarks: boolean, finalCall?: StopReason): string {
    const blocks: string[] = [];
    if (this.#last) for (const call of this.#last.calls) blocks.push(call.result ?? missingResult(call));
    const say = (partJson: string) => blocks.push(...spoken(partJson));
    const last = remarks ? this.#last : undefined;
    for (const notice of this.#notices) say(notice);
    if (last?.repeats) say(JSON.stringify(REPEATED));
    if (remarks && finalCall === undefined) say(this.#goOn);
    for (const partJson of this.#deliveries) say(partJson);
    if (last?.isMute && finalCall === undefined && this.#deliveries.length === 0) say(JSON.stringify(NUDGE));
    if (last && finalCall === undefined && this.#deliveries.length === 0) say(this.#correction);
    if (finalCall !== undefined) say(JSON.stringify(finalCallPrompt(finalCall)));
    return blocks.join(",");
  }
}

const CLOSING_CHARS = 2;

/** A JSON string of white space alone, or no text. */
const BLANK_JSON = /^(?:"(?:\s|\\[fnrt]|\\u000b)*")?$/;

/** Returns a text as a block, and nothing for a blank one; an image is already a block. */
function spoken(partJson: string): string[] {
  if (partJson.startsWith("{")) return [partJson];
  return BLANK_JSON.test(partJson) ? [] : [textBlock(partJson)];
}

function textBlock(textJson: string): string {
  return `{"type":"text","text":${wellFormedJson(textJson)}}`;
}

/** Appends `blocks` to `text`; they join the last message if it has the same role (after a pause, for example). */
function joined(text: string, last: Role | undefined, role: Role, blocks: string) {
  if (blocks === "") return { text, role: last };
  if (last === role) return { text: `${text},${blocks}`, role };
  return { text: `${text}${last === undefined ? "" : "]},"}{"role":"${role}","content":[${blocks}`, role };
}
