/**
 * A `fetch` that limits responses of MCP servers. The parser holds a whole response in memory, so its bytes are bounded. Its
 * depth is bounded too, because a parser needs a hundred times the bytes of deep JSON.
 *
 * 1. A body beyond a bound is an error for its reader, and its connection ends. In a stream of events each event is counted
 *    by itself, because a stream may last as long as its connection.
 */
import type { FetchLike } from "@modelcontextprotocol/client";
import { ToolFailure } from "../../../shared/errors.ts";

/** Limits of one body, or of one event of a stream. */
export interface ResponseLimits {
  readonly bytes: number;
  /** Depth of nested objects and lists. */
  readonly depth: number;
}

/** Returns a `fetch` that reads bodies, or single events, within `limits`; otherwise calls `refused` with the reason. */
export function boundedFetch(limits: ResponseLimits, refused: (why: string) => void): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (response.body === null) return response;
    const isStream = /^text\/event-stream\b/i.test(response.headers.get("content-type") ?? "");
    const counter = new PartCounter(isStream);
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

const [LINE_FEED, CARRIAGE_RETURN, QUOTE, BACKSLASH] = [0x0a, 0x0d, 0x22, 0x5c];
/** The bit in which `[` and `{` differ, and `]` and `}`. */
const CURLY = 0x20;
const [OPENS, CLOSES] = [0x7b, 0x7d];

/**
 * Counts the parts of a body: the body itself, or its events, which end with an empty line. A line ends with a line feed, a
 * carriage return, or both; no JSON string continues after it.
 */
class PartCounter {
  readonly #isStream: boolean;
  #bytes = 0;
  #depth = 0;
  #isInText = false;
  #isEscaped = false;
  #isEmptyLine = true;
  #last = 0;

  constructor(isStream: boolean) {
    this.#isStream = isStream;
  }

  /** Counts the next bytes. Returns the problem of the parts to which they belong; undefined if there is none. */
  countChunk(chunk: Uint8Array, { bytes, depth }: ResponseLimits): string | undefined {
    for (const byte of chunk) {
      this.#take(byte);
      if (this.#bytes > bytes) return `it is longer than ${bytes} bytes`;
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
    else if ((byte | CURLY) === OPENS) this.#depth += 1;
    else if ((byte | CURLY) === CLOSES) this.#depth = Math.max(0, this.#depth - 1);
  }

  #endLine(byte: number): void {
    [this.#isInText, this.#isEscaped] = [false, false];
    if (byte === LINE_FEED && this.#last === CARRIAGE_RETURN) return;
    if (this.#isStream && this.#isEmptyLine) [this.#bytes, this.#depth] = [0, 0];
    this.#isEmptyLine = true;
  }
}
