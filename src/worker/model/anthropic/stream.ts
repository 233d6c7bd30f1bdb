/**
 * Reads the body of a response into an {@link AnswerDraft}: server-sent events or one JSON message, on the socket's own
 * chunks. No decoder, no iterator, no JSON parsing of a delta in the API's usual spelling.
 *
 * Owns the unread part of the body; `transport.ts` owns the connection, `answer-draft.ts` the message.
 *
 * Invariants
 * 1. A chunk may end anywhere, even within a character: text has one character per byte until its block is finished.
 * 2. Unread bytes are bounded by the limit of the answer. A larger body is read without being kept, because its end says how
 *    many tokens are billed, but never further than {@link MOST_BYTES}.
 */
import { APIError } from "@anthropic-ai/sdk";
import { keptForV8 } from "../../../shared/hidden-class.ts";
import { isJsonObject, type JsonObject } from "../../../shared/protocol/content.ts";
import { closingQuote, depthOf, JSON_MAX_DEPTH, shallowJsonIn } from "../../../shared/protocol/text.ts";
import { type AnswerDraft, type PieceField, spell, typeName, unspell } from "./answer-draft.ts";
import { MalformedAnswerError, TruncatedStreamError } from "./failure.ts";

/** Longest body that is read. */
const MOST_BYTES = 16 * 1024 * 1024;

/** Reads one body. */
export interface BodyReader {
  /** Takes the next bytes. An exception ends the call. */
  feed(chunk: Buffer): void;
  /** Takes the end of the body; `isWhole` false: it broke off. Throws if the message is not whole. */
  end(isWhole: boolean): void;
}

/** Returns the reader for a body of this type; `isStreamed` decides if the type is empty. */
export function readerOf(
  contentType: string,
  isStreamed: boolean,
  draft: AnswerDraft,
  onText?: (text: string) => void,
): BodyReader {
  const isStream = contentType === "" ? isStreamed : contentType.startsWith("text/event-stream");
  return isStream ? new EventReader(draft, onText) : new MessageReader(draft);
}

const LINE_FEED = "\n";
const CARRIAGE_RETURN = 13;
const SPACE = 32;
const CLOSING_BRACE = 125;

/** The API's usual spelling of a delta; a line in any other spelling is parsed as a whole. */
const DELTA = 'data: {"type":"content_block_delta","index":';
const PIECES: readonly (readonly [start: string, field: PieceField])[] = [
  [',"delta":{"type":"text_delta","text":"', "text"],
  [',"delta":{"type":"input_json_delta","partial_json":"', "input"],
  [',"delta":{"type":"thinking_delta","thinking":"', "thinking"],
];
/** The same deltas, in any spelling. */
const TEXT_DELTAS: ReadonlyMap<unknown, { member: string; field: PieceField }> = new Map([
  ["text_delta", { member: "text", field: "text" }],
  ["input_json_delta", { member: "partial_json", field: "input" }],
  ["thinking_delta", { member: "thinking", field: "thinking" }],
]);
const BLOCK_EVENT = '"content_block_';
/** The API's usual spelling of the end of a block. It is skipped, because the draft does not need it. */
const BLOCK_STOP = 'data: {"type":"content_block_stop","index":';
/** The line that names an error; the blank is optional. */
const ERROR_NAMES = ["event: error", "event:error"];
const NOT_ASCII = /[\x80-\xff]/;

/** Pieces of a line are joined at this number, because each takes more memory than its text. */
const MOST_PIECES = 1_024;

class EventReader implements BodyReader {
  readonly #draft: AnswerDraft;
  readonly #onText: ((text: string) => void) | undefined;
  /** The beginning of a line, one character per byte. */
  #rest = "";
  /** Later chunks of that line, not yet joined: joining the line at each chunk would take quadratic time. */
  #pieces: string[] = [];
  #piecesChars = 0;
  #isSkipping = false;
  #bytes = 0;
  /** Data lines of an event that spans several lines: the first is no JSON by itself. Parsed at the event's end. */
  #unparsed = "";
  #isError = false;
  /** Text since the listener's last call, JSON-encoded. */
  #unheard = "";

  constructor(draft: AnswerDraft, onText: ((text: string) => void) | undefined) {
    this.#draft = draft;
    this.#onText = onText;
    keptForV8.stream = this;
  }

  feed(bytes: Buffer): void {
    const chunk = this.#bytes === 0 ? withoutMark(bytes) : bytes;
    this.#bytes = boundedSum(this.#bytes, chunk);
    const piece = chunk.toString("latin1");
    const first = piece.indexOf(LINE_FEED);
    if (first < 0) {
      this.#keep(piece);
      return;
    }
    const begun = this.#pieces.length === 0 ? this.#rest : this.#joined();
    const text = begun + piece;
    let from = 0;
    let end = begun.length + first;
    for (; end >= 0 && !this.#draft.isComplete; end = text.indexOf(LINE_FEED, from)) {
      if (this.#isSkipping) this.#isSkipping = false;
      else this.#line(text, from, text.charCodeAt(end - 1) === CARRIAGE_RETURN ? end - 1 : end);
      from = end + 1;
    }
    this.#rest = this.#isSkipping || this.#draft.isComplete ? "" : text.slice(from);
    if (this.#unheard !== "") this.#tell();
  }

  end(isWhole: boolean): void {
    if (this.#draft.isComplete || !isWhole) return;
    if (this.#draft.isBegun) throw new TruncatedStreamError();
    throw new MalformedAnswerError("the server did not answer with a message stream");
  }

  /** Keeps a chunk that does not end the line. */
  #keep(piece: string): void {
    if (this.#isSkipping || this.#draft.isComplete) return;
    this.#pieces.push(piece);
    this.#piecesChars += piece.length;
    if (this.#rest.length + this.#piecesChars > this.#draft.limitBytes) this.#skip();
    else if (this.#pieces.length === MOST_PIECES) this.#rest = this.#joined();
  }

  /** Returns the line so far. */
  #joined(): string {
    const text = this.#rest + this.#pieces.join("");
    this.#pieces = [];
    this.#piecesChars = 0;
    return text;
  }

  /** Drops a line that is longer than the whole answer may be. */
  #skip(): void {
    this.#draft.overflow();
    this.#isSkipping = true;
    this.#rest = "";
    this.#pieces = [];
    this.#piecesChars = 0;
  }

  #line(text: string, from: number, end: number): void {
    if (end <= from) this.#endEvent();
    else if (text.startsWith("data:", from)) {
      if (!this.#takeUsual(text, from, end)) this.#takeData(text.slice(from + "data:".length, end));
    } else if (ERROR_NAMES.some((line) => line.length === end - from && text.startsWith(line, from)))
      this.#isError = true;
  }

  /** Takes a line in the usual spelling, as nearly every line is; false: the caller must parse it. */
  #takeUsual(text: string, from: number, end: number): boolean {
    if (text.startsWith(DELTA, from)) return this.#takePiece(text, from, end);
    if (!text.startsWith(BLOCK_STOP, from) || this.#unparsed !== "" || this.#isError) return false;
    return endsObjects(text, behindDigits(text, from + BLOCK_STOP.length), end, 1);
  }

  #takePiece(text: string, from: number, end: number): boolean {
    const at = behindDigits(text, from + DELTA.length);
    const index = Number(text.slice(from + DELTA.length, at));
    for (const [start, field] of PIECES) {
      if (!text.startsWith(start, at)) continue;
      const close = closingQuote(text, at + start.length);
      if (close < 0 || !endsObjects(text, close + 1, end, 2)) return false;
      this.#takeText(index, field, text.slice(at + start.length, close));
      return true;
    }
    return false;
  }

  #takeText(index: number, field: PieceField, piece: string): void {
    if (this.#draft.isTooLarge) return;
    this.#draft.extend(index, field, piece);
    if (field === "text" && this.#onText) this.#unheard += piece;
  }

  #takeData(line: string): void {
    if (this.#draft.isTooLarge && line.includes(BLOCK_EVENT)) return;
    if (this.#unparsed === "" && this.#isTaken(line)) return;
    this.#unparsed += `${line}\n`;
    if (this.#unparsed.length > this.#draft.limitBytes)
      throw new MalformedAnswerError("an event is too large");
  }

  #endEvent(): void {
    const json = this.#unparsed;
    this.#unparsed = "";
    if (json !== "" && !this.#isTaken(json))
      throw new MalformedAnswerError("an event of the answer is not JSON");
    this.#isError = false;
  }

  /** Takes the event that `json` encodes, one character per byte; false if it is no JSON. */
  #isTaken(json: string): boolean {
    const event = shallowJsonIn(NOT_ASCII.test(json) ? Buffer.from(json, "latin1").toString() : json);
    if (event === undefined) return false;
    if (this.#isError || (isJsonObject(event) && event.type === "error")) throw errorEvent(event);
    if (isJsonObject(event)) this.#take(event, json.length);
    return true;
  }

  /** Takes an event; ignores unknown types. */
  #take(event: JsonObject, bytes: number): void {
    const draft = this.#draft;
    switch (event.type) {
      case "message_start":
        draft.begin(event.message);
        draft.weigh(bytes);
        break;
      case "content_block_start":
        if (draft.weigh(bytes)) draft.open(indexOf(event), event.content_block);
        break;
      case "content_block_delta":
        this.#takeDelta(indexOf(event), event.delta, bytes);
        break;
      case "message_delta":
        if (isJsonObject(event.delta)) draft.stop(event.delta.stop_reason, event.delta.stop_details);
        draft.count(event.usage);
        break;
      case "message_stop":
        draft.complete();
        break;
    }
  }

  #takeDelta(index: number, delta: unknown, bytes: number): void {
    if (!isJsonObject(delta))
      throw new MalformedAnswerError(`content block ${index} has a delta that is no object`);
    const text = TEXT_DELTAS.get(delta.type);
    if (text) this.#takeText(index, text.field, spell(piece(delta, text.member)));
    else if (this.#draft.weigh(bytes)) changeBlock(this.#draft.blockAt(index), delta);
  }

  /** Calls the listener. It is not part of the call: its failure must not cost a paid answer. */
  #tell(): void {
    try {
      this.#onText?.(unspell(this.#unheard));
    } catch {
      // The contract of `onText` says that its exceptions are ignored.
    }
    this.#unheard = "";
  }
}

/** Applies a delta that does not add text. */
function changeBlock(block: JsonObject, delta: JsonObject): void {
  switch (delta.type) {
    case "signature_delta":
      block.signature = piece(delta, "signature");
      break;
    case "citations_delta":
      if (Array.isArray(block.citations)) block.citations.push(delta.citation);
      else block.citations = [delta.citation];
      break;
    default:
      throw new MalformedAnswerError(`a delta of unknown type ("${typeName(delta.type)}")`);
  }
}

/** Finds token counts in a message that cannot be parsed. */
const USAGE = /"usage"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})/g;
const TAIL_BYTES = 16 * 1024;
/** Bodies come in few chunks; this many chunks become one part, which is not copied again before the end. */
const MOST_CHUNKS = 40;
const MESSAGE_MARK = /"type"\s*:\s*"message"|"role"\s*:\s*"assistant"/;
const HEAD_BYTES = 1024;

class MessageReader implements BodyReader {
  readonly #draft: AnswerDraft;
  #parts: Buffer[] = [];
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Begin and end of a message that is too large: they show that it is a message, and its cost. One character per byte. */
  #head = "";
  #tail = "";

  constructor(draft: AnswerDraft) {
    this.#draft = draft;
    keptForV8.message = this;
  }

  feed(bytes: Buffer): void {
    const chunk = this.#bytes === 0 ? withoutMark(bytes) : bytes;
    this.#bytes = boundedSum(this.#bytes, chunk);
    if (this.#draft.isTooLarge) {
      this.#tail = (this.#tail + chunk.toString("latin1")).slice(-TAIL_BYTES);
      return;
    }
    this.#chunks.push(chunk);
    if (this.#bytes > this.#draft.limitBytes) this.#giveUp();
    else if (this.#chunks.length === MOST_CHUNKS) {
      this.#parts.push(Buffer.concat(this.#chunks));
      this.#chunks = [];
    }
  }

  end(isWhole: boolean): void {
    if (!this.#draft.isTooLarge) {
      // An object that parses is whole, though its connection may have broken behind it.
      const message = shallowJsonIn(this.#body().toString());
      if (isJsonObject(message)) {
        this.#take(message);
        return;
      }
      this.#giveUp();
    }
    this.#salvage();
    if (isWhole && this.#draft.isTooLarge) this.#draft.complete();
    else if (isWhole) throw new MalformedAnswerError("the server did not answer with a message");
  }

  #take(message: JsonObject): void {
    if (message.type === "error") throw errorEvent(message);
    this.#draft.begin(message);
    this.#draft.complete();
  }

  #body(): Buffer {
    const [only] = this.#chunks;
    const isWhole = this.#parts.length === 0 && this.#chunks.length === 1;
    return only && isWhole ? only : Buffer.concat([...this.#parts, ...this.#chunks]);
  }

  /** Keeps only the part of the body that may contain its cost. */
  #giveUp(): void {
    const body = this.#body();
    this.#head = body.toString("latin1", 0, HEAD_BYTES);
    this.#tail = body.toString("latin1", Math.max(0, body.length - TAIL_BYTES));
    this.#parts = [];
    this.#chunks = [];
    if (body.length > this.#draft.limitBytes) this.#draft.overflow();
  }

  /** Books the cost of a message that cannot be read as a whole. */
  #salvage(): void {
    if (!MESSAGE_MARK.test(this.#head)) return;
    this.#draft.buy();
    for (const [, usage = ""] of this.#tail.matchAll(USAGE)) this.#draft.count(shallowJsonIn(usage));
  }
}

const BYTE_ORDER_MARK = Buffer.from("\ufeff");

/** Returns the beginning of a body without its byte order mark, which is no part of it. */
function withoutMark(chunk: Buffer): Buffer {
  const { length } = BYTE_ORDER_MARK;
  return chunk.subarray(0, length).equals(BYTE_ORDER_MARK) ? chunk.subarray(length) : chunk;
}

function boundedSum(bytes: number, chunk: Buffer): number {
  const sum = bytes + chunk.length;
  if (sum > MOST_BYTES) throw new MalformedAnswerError(`the answer is larger than ${MOST_BYTES} bytes`);
  return sum;
}

function behindDigits(text: string, from: number): number {
  let at = from;
  while (isDigit(text.charCodeAt(at))) at += 1;
  return at;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** Checks whether exactly this many objects end between `from` and `end`, with nothing else but spaces. */
function endsObjects(text: string, from: number, end: number, objects: number): boolean {
  let braces = 0;
  for (let at = from; at < end; at++) {
    const code = text.charCodeAt(at);
    if (code === CLOSING_BRACE) braces += 1;
    else if (code !== SPACE) return false;
  }
  return braces === objects;
}

function indexOf(event: JsonObject): number {
  if (typeof event.index === "number") return event.index;
  throw new MalformedAnswerError("a content event without an index");
}

/** Returns a delta's text. Throws if it has none: skipping it would run a tool with an input not from the model. */
function piece(delta: JsonObject, field: string): string {
  const added = delta[field];
  if (typeof added === "string") return added;
  throw new MalformedAnswerError(`a ${typeName(delta.type)} without a ${field}`);
}

/** Makes the error of an event after HTTP status 200. The SDK serialises it: a deep one would overflow the stack. */
function errorEvent(event: unknown): APIError {
  const isShown = isJsonObject(event) && depthOf(event, JSON_MAX_DEPTH) <= JSON_MAX_DEPTH;
  const body = isShown ? event : { error: { message: "the provider reported an error without a sentence" } };
  return new APIError(undefined, body, undefined, undefined);
}
