/**
 * The `fetch` that reads what MCP servers answer over HTTP: what is parsed is in memory as a whole, so its bytes have a bound, and so has
 * its depth, of which a parser needs a hundred times the bytes.
 *
 * 1. A body beyond a bound is an error to its reader, and its connection ends; of a stream of events each one is
 *    counted by itself, since a stream may last as long as its connection.
 */
import type { FetchLike } from "@modelcontextprotocol/client";
import { ToolFailure } from "../../../shared/errors.ts";

/** What one body, or one event of a stream, may have. */
export interface ResponseLimits {
  readonly bytes: number;
  /** Of objects and lists in one another. */
  readonly depth: number;
}

/** Reads bodies, or single events, within `limits`. `refused` is told why one is not read. */
export function boundedFetch(limits: ResponseLimits, refused: (why: string) => void): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (response.body === null) return response;
    const isStream = /^text\/event-stream\b/i.test(response.headers.get("content-type") ?? "");
    const counter = new PartCounter(isStream);
    const bound = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        const problem = counter.problemOf(chunk, limits);
        if (problem === undefined) return controller.enqueue(chunk);
        controller.error(new ToolFailure(problem));
        refused(problem);
      },
    });
    return new Response(response.body.pipeThrough(bound), response);
  };
}

const [LINE_FEED, CARRIAGE_RETURN, QUOTE, BACKSLASH] = [0x0a, 0x0d, 0x22, 0x5c];
/** `[` and `{`, and what closes them, differ in this bit. */
const CURLY = 0x20;
const [OPENS, CLOSES] = [0x7b, 0x7d];

/**
 * Counts the parts of a body: the one that it is, or its events, which end with an empty line; a line ends with a line feed, a carriage
 * return, or both, and no text of JSON goes on behind its end.
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

  /** What is wrong with the parts that these next bytes belong to. */
  problemOf(chunk: Uint8Array, { bytes, depth }: ResponseLimits): string | undefined {
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
