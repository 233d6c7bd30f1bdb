/**
 * Limits of what MCP servers send: a counter of bytes, values and depth, and a `fetch` that applies it to responses. A parser
 * holds a whole message in memory, so its bytes are bounded. Its depth and its values are bounded too: a parser needs a hundred
 * times the bytes of deep JSON, and for ten megabytes of small objects it keeps the thread for seconds.
 *
 * 1. A body beyond a bound is an error for its reader, and its connection ends. In a stream each event or line is counted by
 *    itself, because a stream may last as long as its connection; but not where its reader takes it as a whole.
 */
import type { FetchLike } from "@modelcontextprotocol/client";
import { type Dispatcher, getGlobalDispatcher } from "undici";
import { ToolFailure } from "../../../shared/errors.ts";
import { MAX_CALL_MS } from "../../../shared/mcp-server.ts";
import { isJsonObject } from "../../../shared/protocol/content.ts";
import { jsonIn } from "../../../shared/protocol/text.ts";

/** Limits of one body, or of one event or line of a stream. */
export interface ResponseLimits {
  readonly bytes: number;
  /** Objects, lists, and all their members. */
  readonly values: number;
  /** Depth of nested objects and lists. */
  readonly depth: number;
}

const [ACCEPTED, LAST_STATUS] = [202, 599];
/** The type of a stream. With a comma the SDK takes it for several types, and reads a body. */
const STREAM = /^text\/event-stream\s*(;[^,]*)?$/i;

/** Silence in a response after which the request fails, ms: not before the longest call is over, as after the 300 s of `fetch`. */
const SILENCE_MS = MAX_CALL_MS + 60_000;

/** Returns the dispatcher of this process, which may be an operator's proxy, with {@link SILENCE_MS}. */
function patientDispatcher(): Dispatcher {
  const patience = { headersTimeout: SILENCE_MS, bodyTimeout: SILENCE_MS };
  return getGlobalDispatcher().compose(
    (dispatch) => (request, handler) => dispatch(Object.assign({}, request, patience), handler),
  );
}

/** Returns a `fetch` that reads bodies, or single events, within `limits`; otherwise calls `refused` with the reason. */
export function boundedFetch(limits: ResponseLimits, refused: (why: string) => void): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, Object.assign({}, init, { dispatcher: patientDispatcher() }));
    if (response.body === null) return response;
    if (response.status > LAST_STATUS) {
      // `Response` refuses this status, and an unread body keeps its connection.
      await response.body.cancel();
      throw new ToolFailure(`it answered with status ${response.status}, which HTTP does not have`);
    }
    const counter = new PartCounter(isReadByEvents(response, init) ? "event" : "body");
    const bound = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        const problem = counter.countChunk(chunk, limits);
        if (problem === undefined) return controller.enqueue(chunk);
        controller.error(new ToolFailure(problem));
        refused(problem);
      },
    });
    return new Response(response.body.pipeThrough(bound), response);
  };
}

/** Returns false for a stream that the SDK reads as a whole: one with an error, or in answer to what is no request. */
function isReadByEvents({ ok, status, headers }: Response, init: RequestInit | undefined): boolean {
  if (!ok || status === ACCEPTED || !STREAM.test(headers.get("content-type") ?? "")) return false;
  if (init?.method !== "POST") return true;
  const message: unknown = jsonIn(String(init.body));
  return isJsonObject(message) && "method" in message && "id" in message;
}

const [LINE_FEED, CARRIAGE_RETURN, QUOTE, COMMA, BACKSLASH] = [0x0a, 0x0d, 0x22, 0x2c, 0x5c];
/** The bit in which `[` and `{` differ, and `]` and `}`. */
const CURLY = 0x20;
const [OPENS, CLOSES] = [0x7b, 0x7d];

/**
 * Counts the parts of what a server sends: a body, or the events of a stream, which end with an empty line, or its lines, which
 * end with a line feed. Other lines end with a line feed, a carriage return, or both; no JSON string continues after it.
 */
export class PartCounter {
  readonly #part: "body" | "event" | "line";
  #bytes = 0;
  #values = 0;
  #depth = 0;
  #isInText = false;
  #isEscaped = false;
  #isEmptyLine = true;
  #last = 0;

  constructor(part: "body" | "event" | "line") {
    this.#part = part;
  }

  /** Counts the next bytes. Returns the problem of the parts to which they belong; undefined if there is none. */
  countChunk(chunk: Uint8Array, { bytes, values, depth }: ResponseLimits): string | undefined {
    for (const byte of chunk) {
      this.#take(byte);
      if (this.#bytes > bytes) return `it is longer than ${bytes} bytes`;
      if (this.#values > values) return `it holds more than ${values} values`;
      if (this.#depth > depth) return `it is deeper than ${depth} levels`;
      if (byte === LINE_FEED || byte === CARRIAGE_RETURN) this.#endLine(byte);
      else this.#isEmptyLine = false;
      this.#last = byte;
    }
    return undefined;
  }

  #take(byte: number): void {
    this.#bytes += 1;
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === QUOTE) this.#isInText = !this.#isInText;
    else if (this.#isInText) this.#isEscaped = byte === BACKSLASH;
    else if (byte === COMMA) this.#values += 1;
    else if ((byte | CURLY) === OPENS) {
      this.#values += 1;
      this.#depth += 1;
    } else if ((byte | CURLY) === CLOSES) this.#depth = Math.max(0, this.#depth - 1);
  }

  #endLine(byte: number): void {
    [this.#isInText, this.#isEscaped] = [false, false];
    if (byte === LINE_FEED && this.#last === CARRIAGE_RETURN) return;
    const isPartOver =
      this.#part === "line" ? byte === LINE_FEED : this.#part === "event" && this.#isEmptyLine;
    if (isPartOver) [this.#bytes, this.#values, this.#depth] = [0, 0, 0];
    this.#isEmptyLine = true;
  }
}
