/**
 * Splits the output of an MCP server into lines, each of which may be a message.
 *
 * 1. The cost of a line, in time and in memory, grows with its length, not with the number of its pieces. Joined anew after
 *    each piece, a line of ten megabytes takes minutes of CPU; a piece that is kept takes hundreds of bytes besides its own.
 *
 * The caller bounds the length of a line: `response-limit.ts` counts it.
 */

const LINE_FEED = 0x0a;

/** See the module's header. */
export class LineSplitter {
  /** Holds the line that has no end yet, in its first `#length` bytes; doubles when it is full. */
  #line = Buffer.alloc(0);
  #length = 0;

  /** Takes a copy of the next bytes; yields each line that they end, as UTF-8, without its line feed. Read it to its end. */
  *push(bytes: Buffer): Generator<string, void, void> {
    let from = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, from)) {
      const line = bytes.subarray(from, end);
      from = end + 1;
      yield this.#length === 0 ? line.toString() : this.#finish(line);
    }
    if (from < bytes.length) this.#keep(bytes.subarray(from));
  }

  #keep(piece: Buffer): void {
    const length = this.#length + piece.length;
    if (length > this.#line.length) {
      const longer = Buffer.allocUnsafeSlow(Math.max(length, 2 * this.#line.length));
      this.#line.copy(longer, 0, 0, this.#length);
      this.#line = longer;
    }
    piece.copy(this.#line, this.#length);
    this.#length = length;
  }

  #finish(last: Buffer): string {
    this.#keep(last);
    const line = this.#line.toString("utf8", 0, this.#length);
    this.#line = Buffer.alloc(0);
    this.#length = 0;
    return line;
  }
}
