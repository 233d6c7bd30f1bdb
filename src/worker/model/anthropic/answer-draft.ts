/**
 * Assembles an answer: takes the pieces of a message and returns one {@link ModelAnswer}. No I/O, no clock.
 *
 * Owns the message so far and its bounds; `stream.ts` owns how the pieces are encoded in the response.
 *
 * Invariants
 * 1. No answer takes more memory than {@link answerLimitBytes}: bytes beyond that are dropped and only counted.
 * 2. A block leaves as it arrived: members unknown here (signatures, citations, callers) are untouched.
 * 3. Text stays JSON-encoded until its block is finished, and is parsed once.
 * 4. A tool input is parsed strictly; nothing repairs broken JSON. Such a call is refused, never executable.
 * 5. Other content that cannot be rebuilt faithfully raises {@link MalformedAnswerError} instead of a wrong answer.
 */
import { keptForV8 } from "../../../shared/hidden-class.ts";
import {
  type ContentBlock,
  isJsonObject,
  type JsonObject,
  promptTokens,
  type Usage,
  ZERO_USAGE,
} from "../../../shared/protocol/content.ts";
import { wellFormedJson } from "../../../shared/protocol/reply.ts";
import { clip, parseShallow } from "../../../shared/protocol/text.ts";
import type { ModelAnswer } from "../model.ts";
import { MalformedAnswerError, redact } from "./failure.ts";

/** Maximum number of executable tool calls in one answer. */
const MAX_TOOL_CALLS = 64;
/** Maximum number of blocks in one answer: with more calls than that, even refusing them costs too much. */
const MAX_BLOCKS = 1_024;
/** Longest name of a tool and longest id of a call, in UTF-16 code units: limits of the API. */
const NAME_MAX_CHARS = 128;
const ID_MAX_CHARS = 256;
/** Longest kept name of a model, stop reason and refusal text: all of them go to the log, to events and to replies. */
const WORD_MAX_CHARS = 256;
/** Longest type of a block or a delta in an error message. */
const TYPE_MAX_CHARS = 70;
/** Room for the suffix that makes an id unique. */
const ID_SUFFIX_CHARS = 16;

/** Most bytes per token that an answer may have: nested JSON and escapes take several times those of English text. */
const MOST_BYTES_PER_TOKEN = 32;
const BASE_BYTES = 64 * 1024;
/** Bytes per token of English text, for the estimate of output whose tokens were not reported. */
const USUAL_BYTES_PER_TOKEN = 4;

/** Deepest usable input. Deeper values could be parsed but not serialised: thousands of levels overflow the stack. */
const INPUT_MAX_DEPTH = 100;

/** Maximum number of JSON values in one answer. The worker reads each several times: half a million take its thread a second. */
const MAX_VALUES = 50_000;
/** Part of {@link MAX_VALUES} that inputs leave to the members of the blocks. */
const BLOCK_VALUES = 10 * MAX_BLOCKS;

/** Stop reasons that can end an answer in the middle of a tool call. */
const CUT_OFF: ReadonlySet<string> = new Set(["max_tokens", "model_context_window_exceeded", "refusal"]);

/**
 * Tokens of a call that this side cannot see: a gateway may add instructions to the prompt, and some models think in secret. A
 * provider that counts more is not believed; all other tokens of a prompt have a byte each in the request.
 */
const HIDDEN_TOKENS = 200_000;

const REFUSED = {
  json: "Not executed: the input of this call is not valid JSON. Repeat the call with a JSON object as its input.",
  object: `Not executed: the input of a call must be a JSON object of at most ${INPUT_MAX_DEPTH} levels, and all inputs of an answer may hold ${MAX_VALUES - BLOCK_VALUES} values.`,
  cutOff: "Not executed: the answer was cut off before the input of this call was complete.",
  tooMany: `Not executed: an answer may hold at most ${MAX_TOOL_CALLS} tool calls. Repeat this one in your next answer.`,
} as const;

/** Returns the limit in bytes for an answer requested with `maxTokens`. */
function answerLimitBytes(maxTokens: number): number {
  return BASE_BYTES + MOST_BYTES_PER_TOKEN * maxTokens;
}

/** Members of a block that arrive in pieces. */
export type PieceField = "text" | "thinking" | "input";

/** The piece field of each known block type; a block of an unknown type may have pieces of any field. */
const PIECES_OF: ReadonlyMap<unknown, PieceField> = new Map([
  ["text", "text"],
  ["thinking", "thinking"],
  ["tool_use", "input"],
]);

/** A block that may still grow. */
interface OpenBlock {
  index: number;
  block: JsonObject;
  /** Pieces, JSON-encoded, one character per byte of UTF-8. */
  pieces: Partial<Record<PieceField, string>>;
}

/** See the module's header. */
export class AnswerDraft {
  readonly limitBytes: number;
  #model: string;
  readonly #maxTokens: number;
  readonly #promptBytes: () => number;
  #usage: Usage = ZERO_USAGE;
  /** True if the output tokens are those of the whole message: the start of a stream reports one or two. */
  #isOutputCounted = false;
  #pieceBytes = 0;
  #stopReason: string | undefined;
  #refusal: string | undefined;
  readonly #blocks = new Map<number, OpenBlock>();
  #bytes = 0;
  #isTooLarge = false;
  #isBegun = false;
  #isComplete = false;
  /** True if the provider may have billed the call even if no part of its message is readable. */
  mayBeBilled = false;

  /** @param requestedModel model name used if the answer has none @param promptBytes returns the bytes of the prompt as JSON; asked only where they decide */
  constructor(requestedModel: string, maxTokens: number, promptBytes: () => number = () => 0) {
    this.#model = requestedModel;
    this.#maxTokens = maxTokens;
    this.#promptBytes = promptBytes;
    this.limitBytes = answerLimitBytes(maxTokens);
    keptForV8.answer = this;
  }

  /** True if the message has begun: then the call is billed. */
  get isBegun(): boolean {
    return this.#isBegun;
  }

  /** True if the whole message has arrived. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** True if the answer exceeded its limit; its content has been dropped. */
  get isTooLarge(): boolean {
    return this.#isTooLarge;
  }

  /** Tokens reported so far. Output is estimated by what has arrived, until the end of the message reports its tokens. */
  get usage(): Usage {
    const arrived = Math.min(this.#maxTokens, Math.ceil(this.#pieceBytes / USUAL_BYTES_PER_TOKEN));
    if (this.#isOutputCounted || arrived <= this.#usage.output_tokens) return this.#usage;
    return { ...this.#usage, output_tokens: arrived };
  }

  /** Takes the message: a whole one, or the start of a streamed one. */
  begin(message: unknown): void {
    if (this.#isBegun) throw new MalformedAnswerError("the answer starts twice");
    if (!isJsonObject(message)) throw new MalformedAnswerError("the answer starts without a message");
    this.#isBegun = true;
    if (typeof message.model === "string" && message.model !== "") this.#model = wordOf(message.model);
    this.stop(message.stop_reason, message.stop_details);
    this.count(message.usage);
    this.#isOutputCounted &&= typeof message.stop_reason === "string";
    const content: unknown[] = Array.isArray(message.content) ? message.content : [];
    for (const [index, block] of content.entries()) this.open(index, block);
  }

  /** Marks an unreadable message as begun, i.e. billed. */
  buy(): void {
    this.#isBegun = true;
  }

  /** Opens a block. */
  open(index: number, block: unknown): void {
    if (!this.#isBegun) throw new MalformedAnswerError("the answer has content before its start");
    if (!isJsonObject(block)) throw new MalformedAnswerError("a content block is not an object");
    if (this.#blocks.has(index)) throw new MalformedAnswerError(`content block ${index} starts twice`);
    if (this.#blocks.size === MAX_BLOCKS) this.overflow();
    else if (!this.#isTooLarge) this.#blocks.set(index, { index, block, pieces: {} });
  }

  /** Adds a piece, JSON-encoded, one character per byte, without its quotes. */
  extend(index: number, field: PieceField, piece: string): void {
    const { block, pieces } = this.#at(index);
    if ((PIECES_OF.get(block.type) ?? field) !== field)
      throw new MalformedAnswerError(`a piece of ${field} for a ${typeName(block.type)} block`);
    this.#pieceBytes += piece.length;
    if (this.weigh(piece.length)) pieces[field] = (pieces[field] ?? "") + piece;
  }

  /** Returns the block of a delta that is no text piece; the caller changes it in place. */
  blockAt(index: number): JsonObject {
    return this.#at(index).block;
  }

  /** Counts bytes before they are kept; returns false if they must not be. */
  weigh(bytes: number): boolean {
    this.#bytes += bytes;
    if (this.#bytes > this.limitBytes) this.overflow();
    return !this.#isTooLarge;
  }

  /** Drops the content because the answer is too large. Later content is only counted. */
  overflow(): void {
    this.#isTooLarge = true;
    this.#blocks.clear();
  }

  /** Takes the stop reason, if it is a string, and the provider's explanation of a refusal. */
  stop(reason: unknown, details?: unknown): void {
    if (typeof reason === "string") this.#stopReason = wordOf(reason);
    if (reason !== "refusal" || !isJsonObject(details)) return;
    const said = [details.category, details.explanation].filter((word) => textOf(word) !== "").join(": ");
    if (said !== "") this.#refusal = clip(redact(said.toWellFormed()), WORD_MAX_CHARS);
  }

  /**
   * Takes token counts. They are totals of the whole message: present ones replace the old, absent ones stay. So do counts
   * that this call cannot have: see {@link HIDDEN_TOKENS}.
   */
  count(usage: unknown): void {
    if (!isJsonObject(usage)) return;
    const tokens = (value: unknown, before: number) =>
      typeof value === "number" ? Math.max(0, Math.trunc(value)) : before;
    const was = this.#usage;
    const counted: Usage = {
      input_tokens: tokens(usage.input_tokens, was.input_tokens),
      output_tokens: tokens(usage.output_tokens, was.output_tokens),
      cache_read_input_tokens: tokens(usage.cache_read_input_tokens, was.cache_read_input_tokens),
      cache_creation_input_tokens: tokens(usage.cache_creation_input_tokens, was.cache_creation_input_tokens),
    };
    const isOutputCredible = counted.output_tokens <= this.#maxTokens + HIDDEN_TOKENS;
    if (!isOutputCredible) counted.output_tokens = was.output_tokens;
    this.#isOutputCounted ||= isOutputCredible && typeof usage.output_tokens === "number";
    const beyondHidden = promptTokens(counted) - HIDDEN_TOKENS;
    const isPromptCredible = beyondHidden <= 0 || beyondHidden <= this.#promptBytes();
    this.#usage = isPromptCredible ? counted : { ...was, output_tokens: counted.output_tokens };
  }

  /** Marks the message as whole; nothing more is taken. */
  complete(): void {
    this.#isComplete = true;
  }

  /** Returns the finished answer. Throws {@link MalformedAnswerError} if it is not usable. */
  finish(): ModelAnswer {
    const stopReason = this.#stopReason;
    if (this.#isTooLarge)
      throw new MalformedAnswerError(
        `the answer is larger than ${this.limitBytes} bytes or ${MAX_BLOCKS} blocks`,
      );
    if (!stopReason) throw new MalformedAnswerError("the answer has no stop reason");
    const calls = new CallChecks(CUT_OFF.has(stopReason));
    const blocks = [...this.#blocks.values()].sort((a, b) => a.index - b.index);
    const content: ContentBlock[] = [];
    for (const open of blocks) content.push(checked(open, calls));
    const json = JSON.stringify(content);
    const contentJson = wellFormedJson(json);
    return {
      contentJson,
      content: contentJson === json ? content : JSON.parse(contentJson),
      refusedCalls: calls.refused,
      // Some gateways say `end_turn` where the model has called tools.
      stopReason: stopReason === "end_turn" && calls.ids.size > 0 ? "tool_use" : stopReason,
      refusal: stopReason === "refusal" ? this.#refusal : undefined,
      model: this.#model,
      usage: this.usage,
    };
  }

  #at(index: number): OpenBlock {
    const open = this.#blocks.get(index);
    if (!open) throw new MalformedAnswerError(`a delta for content block ${index} that is not open`);
    return open;
  }
}

/** Checks of the tool calls of one answer: unique ids, bounded names, and calls that must not be executed. */
class CallChecks {
  readonly refused = new Map<string, string>();
  readonly #isCutOff: boolean;
  readonly ids = new Set<string>();
  readonly #suffixes = new Map<string, number>();
  /** Values that the rest of the answer may have. */
  #valuesLeft = MAX_VALUES;

  constructor(isCutOff: boolean) {
    this.#isCutOff = isCutOff;
    keptForV8.checks = this;
  }

  /** Checks the call in place. */
  take(block: JsonObject, inputJson: string | undefined): void {
    const id = this.#unique(typeof block.id === "string" ? block.id : "");
    if (block.id !== id) block.id = id;
    const name = typeof block.name === "string" ? block.name.toWellFormed() : "";
    if (name !== block.name || name.length > NAME_MAX_CHARS)
      block.name = name.slice(0, NAME_MAX_CHARS).toWellFormed();
    const problem = this.#readInput(block, inputJson);
    if (problem !== undefined) block.input = {};
    if (this.ids.size > MAX_TOOL_CALLS) this.refused.set(id, REFUSED.tooMany);
    else if (problem !== undefined) this.refused.set(id, this.#isCutOff ? REFUSED.cutOff : problem);
  }

  /** Counts the values of a finished block; returns false if it is too deep, or the answer has too many. */
  fits(block: JsonObject): boolean {
    this.#valuesLeft -= valuesIn(block, INPUT_MAX_DEPTH + 1, this.#valuesLeft);
    return this.#valuesLeft >= 0;
  }

  #readInput(block: JsonObject, inputJson: string | undefined): string | undefined {
    if (inputJson) {
      try {
        block.input = parseShallow(inputJson);
      } catch (error) {
        if (error instanceof SyntaxError) return REFUSED.json;
        throw error;
      }
    }
    const most = this.#valuesLeft - BLOCK_VALUES;
    const isUsable = isJsonObject(block.input) && valuesIn(block.input, INPUT_MAX_DEPTH, most) <= most;
    return isUsable ? undefined : REFUSED.object;
  }

  /** Returns a unique id: a provider may give two calls the same id, or none, and results could not be matched. */
  #unique(given: string): string {
    let id = given.slice(0, ID_MAX_CHARS).toWellFormed() || "call";
    if (this.ids.has(id)) {
      const stem = id.slice(0, ID_MAX_CHARS - ID_SUFFIX_CHARS).toWellFormed();
      let k = this.#suffixes.get(stem) ?? 2;
      while (this.ids.has(`${stem}_${k}`)) k += 1;
      this.#suffixes.set(stem, k + 1);
      id = `${stem}_${k}`;
    }
    this.ids.add(id);
    return id;
  }
}

/** Puts the pieces into the block and checks it. */
function checked({ block, pieces }: OpenBlock, calls: CallChecks): ContentBlock {
  if (pieces.text !== undefined) block.text = textOf(block.text) + unspell(pieces.text);
  if (pieces.thinking !== undefined) block.thinking = textOf(block.thinking) + unspell(pieces.thinking);
  const inputJson = pieces.input && unspell(pieces.input);
  if (block.type === "tool_use") calls.take(block, inputJson);
  else if (inputJson) block.input = parseShallow(inputJson);
  if (!isContentBlock(block)) throw new MalformedAnswerError(`a ${typeName(block.type)} block is malformed`);
  if (!calls.fits(block))
    throw new MalformedAnswerError(
      `a ${typeName(block.type)} block has more than ${INPUT_MAX_DEPTH} levels, or the answer more than ${MAX_VALUES} values`,
    );
  return block;
}

/** Returns the number of values in JSON, itself included; infinity beyond `levels` or `most`, where it stops. */
function valuesIn(value: unknown, levels: number, most: number): number {
  if (value === null || typeof value !== "object") return 1;
  const children: unknown[] = Object.values(value);
  if (levels <= 0 || children.length >= most) return Number.POSITIVE_INFINITY;
  let count = 1;
  for (const child of children) {
    count += valuesIn(child, levels - 1, most - count);
    if (count > most) return Number.POSITIVE_INFINITY;
  }
  return count;
}

/** Cheap equivalent of the protocol's `ContentBlock` schema; calls have been checked before. */
function isContentBlock(block: JsonObject): block is ContentBlock {
  switch (block.type) {
    case "text":
      return typeof block.text === "string";
    case "tool_use":
      return true;
    case "tool_result":
      return false;
    default:
      return typeof block.type === "string" && block.type !== "";
  }
}

const NOT_ASCII = /[\x80-\xff]/;

/** Decodes text that is JSON-encoded, without its quotes and with one character per byte of UTF-8. */
export function unspell(spelled: string): string {
  const utf8 = NOT_ASCII.test(spelled) ? Buffer.from(spelled, "latin1").toString() : spelled;
  return utf8.includes("\\") ? textOf(JSON.parse(`"${utf8}"`)) : utf8;
}

/** The reverse of {@link unspell}. */
export function spell(text: string): string {
  return Buffer.from(JSON.stringify(text).slice(1, -1)).toString("latin1");
}

/** Returns a type for an error message: bounded, and only if it is text, because other values are unsafe to print. */
export function typeName(type: unknown): string {
  return typeof type === "string" ? clip(type.toWellFormed(), TYPE_MAX_CHARS) : "untyped";
}

/** Returns a word of the provider, bounded and well-formed for the log and the replies. */
function wordOf(text: string): string {
  return clip(text.toWellFormed(), WORD_MAX_CHARS);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
