/**
 * Splits the output of an MCP server into lines, each of which may be a message.
 *
 * 1. The cost of a line grows with its length, not with the number of its pieces: they are joined once, at its end. Joined after
 *    each piece, a line of ten megabytes takes minutes of CPU.
 *
 * The caller bounds the length of a line: `response-limit.ts` counts it.
 */

const LINE_FEED = 0x0a;

/** See the module's header. */
export class LineSplitter {
  /** The line that has no end yet. */
  #pieces: Buffer[] = [];

  /** Takes the next bytes; yields each line that they end, as UTF-8, without its line feed. Read it to its end. */
  *push(bytes: Buffer): Generator<string, void, void> {
    let from = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, from)) {
      const line = bytes.subarray(from, end);
      from = end + 1;
      yield this.#pieces.length === 0 ? line.toString() : this.#finish(line);
    }
    if (from < bytes.length) this.#pieces.push(bytes.subarray(from));
  }

  #finish(last: Buffer): string {
    const line = Buffer.concat([...this.#pieces, last]).toString();
    this.#pieces = [];
    return line;
  }
}
