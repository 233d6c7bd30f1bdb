/**
 * Puts a streamed message together: events in, one {@link ModelTurn} out. No I/O, no clock.
 *
 * Owns: the message so far. Its neighbour `anthropic.ts` owns the stream and decides what an early end means.
 *
 * Invariants
 * 1. A block comes out as it came in: fields nobody here knows (signatures, citations, callers) are untouched.
 * 2. A tool input is parsed strictly, once, when the message is complete; nothing repairs broken JSON. Only when
 *    the stop reason says that the answer was cut off does the cut-off call come out, with an empty input.
 * 3. Whatever cannot be rebuilt faithfully raises {@link MalformedTurnError} instead of coming out wrong.
 */
import { ContentBlock, type JsonObject, type Usage, ZERO_USAGE } from "../../shared/protocol/content.ts";
import { depthOf } from "../../shared/protocol/message.ts";
import { MalformedTurnError } from "./fault.ts";
import type { ModelTurn } from "./model.ts";

/** Stop reasons that can end an answer in the middle of a tool call; such a call is never to be executed. */
const CUT_OFF: ReadonlySet<string> = new Set(["max_tokens", "model_context_window_exceeded", "refusal"]);

/** No call has more tokens of one kind; what claims to is no count. Sums of what passes stay whole numbers. */
const MOST_TOKENS = 1_000_000_000;

interface OpenBlock {
  block: JsonObject;
  /** Concatenated JSON of a tool input; undefined until its first delta. */
  inputJson?: string;
}

/** Collects the events of one message stream. */
export class TurnBuilder {
  readonly #blocks = new Map<number, OpenBlock>();
  #usage: Usage = ZERO_USAGE;
  #model: string;
  #stopReason: string | undefined;
  #started = false;
  #complete = false;

  /** @param requestedModel stands in when the answer does not name its model */
  constructor(requestedModel: string) {
    this.#model = requestedModel;
  }

  /** Whether `message_stop` has arrived. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Whether `message_start` has arrived. */
  get started(): boolean {
    return this.#started;
  }

  /** Tokens reported so far; output is only known from the end of the message on. */
  get usage(): Usage {
    return this.#usage;
  }

  /** Takes the next event; unknown event types are ignored. Returns the text it added, if any. */
  add(event: unknown): string | undefined {
    if (!isObject(event) || this.#complete) return undefined;
    switch (event.type) {
      case "message_start":
        this.#start(event.message);
        return undefined;
      case "content_block_start":
        this.#open(indexOf(event), event.content_block);
        return undefined;
      case "content_block_delta":
        return this.#extend(indexOf(event), event.delta);
      case "message_delta":
        if (isObject(event.delta) && typeof event.delta.stop_reason === "string") {
          this.#stopReason = event.delta.stop_reason;
        }
        this.#count(event.usage);
        return undefined;
      case "message_stop":
        this.#complete = true;
        return undefined;
      default:
        return undefined;
    }
  }

  /** The finished turn. Raises {@link MalformedTurnError} when the message is not usable. */
  build(): ModelTurn {
    const stopReason = this.#stopReason;
    if (!stopReason) throw new MalformedTurnError("the answer has no stop reason");
    const content = [...this.#blocks.entries()]
      .sort(([a], [b]) => a - b)
      .map(([, open]) => finished(open, CUT_OFF.has(stopReason)));
    return { content, stopReason, model: this.#model, usage: this.#usage };
  }

  #start(message: unknown): void {
    if (this.#started) throw new MalformedTurnError("the answer starts twice");
    if (!isObject(message)) throw new MalformedTurnError("the answer starts without a message");
    this.#started = true;
    if (typeof message.model === "string" && message.model !== "") this.#model = message.model;
    if (typeof message.stop_reason === "string") this.#stopReason = message.stop_reason;
    const content: unknown[] = Array.isArray(message.content) ? message.content : [];
    for (const [index, block] of content.entries()) this.#open(index, block);
    this.#count(message.usage);
  }

  #open(index: number, block: unknown): void {
    if (!this.#started) throw new MalformedTurnError("the answer has content before its start");
    if (!isObject(block)) throw new MalformedTurnError("a content block is not an object");
    if (this.#blocks.has(index)) throw new MalformedTurnError(`content block ${index} starts twice`);
    this.#blocks.set(index, { block: { ...block } });
  }

  #extend(index: number, delta: unknown): string | undefined {
    const open = this.#blocks.get(index);
    if (!open || !isObject(delta))
      throw new MalformedTurnError(`a delta for content block ${index} that is not open`);
    const { block } = open;
    switch (delta.type) {
      case "text_delta":
        block.text = text(block.text) + piece(delta, "text");
        return piece(delta, "text");
      case "input_json_delta":
        open.inputJson = (open.inputJson ?? "") + piece(delta, "partial_json");
        return undefined;
      case "thinking_delta":
        block.thinking = text(block.thinking) + piece(delta, "thinking");
        return undefined;
      case "signature_delta":
        block.signature = piece(delta, "signature");
        return undefined;
      case "citations_delta":
        block.citations = [...(Array.isArray(block.citations) ? block.citations : []), delta.citation];
        return undefined;
      default:
        throw new MalformedTurnError(`a delta of unknown type ${JSON.stringify(delta.type)}`);
    }
  }

  /** The counters are totals of the whole message: what is present replaces, what is absent stays. */
  #count(usage: unknown): void {
    if (!isObject(usage)) return;
    const next = { ...this.#usage };
    for (const key of Object.keys(next) as (keyof Usage)[]) {
      const value = usage[key];
      if (typeof value === "number" && Math.abs(value) <= MOST_TOKENS)
        next[key] = Math.max(0, Math.trunc(value));
    }
    this.#usage = next;
  }
}

/** Deeper inputs could be parsed but not written down again: serialising thousands of levels overflows the stack. */
const INPUT_MAX_DEPTH = 100;

function finished({ block, inputJson }: OpenBlock, cutOff: boolean): ContentBlock {
  if (inputJson) block.input = parseInput(inputJson, block, cutOff);
  const checked = ContentBlock.safeParse(block);
  if (!checked.success) {
    throw new MalformedTurnError(
      `a ${String(block.type)} block is malformed: ${checked.error.issues[0]?.message}`,
    );
  }
  return block as ContentBlock;
}

function parseInput(json: string, block: JsonObject, cutOff: boolean): JsonObject {
  try {
    const input: unknown = JSON.parse(json);
    if (isObject(input) && depthOf(input, INPUT_MAX_DEPTH) <= INPUT_MAX_DEPTH) return input;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  if (cutOff) return {};
  throw new MalformedTurnError(
    `the input of tool call ${String(block.name)} is not a JSON object of at most ${INPUT_MAX_DEPTH} levels`,
  );
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function indexOf(event: JsonObject): number {
  if (typeof event.index === "number") return event.index;
  throw new MalformedTurnError("a content event without an index");
}

/** What a delta adds. Leaving out what is no text would run a tool with an input that nobody asked for. */
function piece(delta: JsonObject, field: string): string {
  const added = delta[field];
  if (typeof added === "string") return added;
  throw new MalformedTurnError(`a ${String(delta.type)} without a ${field}`);
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
