/**
 * The `fetch` that reads what MCP servers answer over HTTP: what is parsed is in memory as a whole, so its bytes have a bound.
 *
 * 1. A body with more than the bound is an error to its reader, and its connection ends; of a stream of events each one is
 *    counted by itself, since a stream may last as long as its connection.
 */
import type { FetchLike } from "@modelcontextprotocol/client";
import { ToolFailure } from "../../../shared/errors.ts";

/** Reads bodies, or single events, of at most `maxBytes`. `tooLong` is told of one that has more. */
export function boundedFetch(maxBytes: number, tooLong: () => void): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (response.body === null) return response;
    const isStream = /^text\/event-stream\b/i.test(response.headers.get("content-type") ?? "");
    const longest = isStream ? eventCounter() : byteCounter();
    const bound = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        if (longest(chunk) <= maxBytes) return controller.enqueue(chunk);
        controller.error(new ToolFailure(`it is longer than ${maxBytes} bytes`));
        tooLong();
      },
    });
    return new Response(response.body.pipeThrough(bound), response);
  };
}

/** Takes the next bytes of a body; answers how many the longest part has had since the last answer. */
type Counter = (chunk: Uint8Array) => number;

/** The body is one part. */
function byteCounter(): Counter {
  let bytes = 0;
  return (chunk) => {
    bytes += chunk.length;
    return bytes;
  };
}

const [LINE_FEED, CARRIAGE_RETURN] = [0x0a, 0x0d];

/** The parts are events, which end with an empty line; a line ends with a line feed, a carriage return, or both. */
function eventCounter(): Counter {
  let [bytes, isEmptyLine, last] = [0, true, 0];
  return (chunk) => {
    let longest = 0;
    for (const byte of chunk) {
      bytes++;
      longest = Math.max(longest, bytes);
      const isEnd = byte === LINE_FEED || byte === CARRIAGE_RETURN;
      const isSecondHalf = byte === LINE_FEED && last === CARRIAGE_RETURN;
      if (isEnd && !isSecondHalf && isEmptyLine) bytes = 0;
      if (!isSecondHalf) isEmptyLine = isEnd;
      last = byte;
    }
    return longest;
  };
}
