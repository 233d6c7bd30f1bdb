/**
 * Splits the input of the MCP server into lines, each of which may be a message. Of a line beyond the limit only both ends are
 * kept: they hold the id of its request. The cost of a line grows with its length, not with the number of its pieces.
 */
import type { RequestId } from "@modelcontextprotocol/server";

const LINE_FEED = 0x0a;
/** Bytes that are kept of each end of a line beyond the limit. */
const END_BYTES = 1_024;
const ID = /"id"\s*:\s*(?<id>-?\d{1,15}|"[^"\\]{1,256}")/.source;
/** The id of a request that names it before its parameters, or after them. In an object no text can look like either. */
const [ID_AT_BEGINNING, ID_AT_END] = [
  new RegExp(`^\\s*\\{\\s*(?:"(?:jsonrpc|method)"\\s*:\\s*"[^"\\\\]*"\\s*,\\s*){0,2}${ID}\\s*,`),
  new RegExp(`[{,]\\s*${ID}\\s*(?:,\\s*"(?:jsonrpc|method)"\\s*:\\s*"[^"\\\\]*"\\s*){0,2}\\}\\s*$`),
];

/** A whole line, or the id of the request in a line beyond the limit, null where it names none. */
export type MessageLine = { readonly bytes: Buffer } | { readonly lostId: RequestId | null };

/** See the module's header. */
export class MessageLines {
  readonly #most: number;
  /** The line that has no end yet; of one beyond the limit its beginning. */
  #pieces: Buffer[] = [];
  #length = 0;
  /** The last bytes of a line beyond the limit. */
  #end: Buffer | undefined;

  /** `most`: bytes of a line, without its line feed. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Takes the next bytes; yields each line that they end. Read it to its end. */
  *push(bytes: Buffer): Generator<MessageLine, void, void> {
    let from = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, from)) {
      this.#add(bytes.subarray(from, end));
      from = end + 1;
      yield this.#finish();
    }
    if (from < bytes.length) this.#add(bytes.subarray(from));
  }

  #add(piece: Buffer): void {
    this.#length += piece.length;
    if (this.#end === undefined && this.#length <= this.#most) return void this.#pieces.push(piece);
    if (this.#end === undefined) {
      const line = Buffer.concat([...this.#pieces, piece]);
      this.#pieces = [Buffer.from(line.subarray(0, END_BYTES))];
      this.#end = Buffer.from(line.subarray(-END_BYTES));
    } else {
      this.#end = Buffer.from(Buffer.concat([this.#end, piece]).subarray(-END_BYTES));
    }
  }

  #finish(): MessageLine {
    const [pieces, end] = [this.#pieces, this.#end];
    [this.#pieces, this.#length, this.#end] = [[], 0, undefined];
    const [only] = pieces;
    if (end !== undefined) return { lostId: idAtEnds(String(only), String(end)) };
    return { bytes: pieces.length === 1 && only ? only : Buffer.concat(pieces) };
  }
}

/** Returns the id that a request names at the beginning or at the end of its line; null if it names none there. */
export function idIn(line: Buffer): RequestId | null {
  return idAtEnds(line.subarray(0, END_BYTES).toString(), line.subarray(-END_BYTES).toString());
}

function idAtEnds(beginning: string, end: string): RequestId | null {
  const found = ID_AT_BEGINNING.exec(beginning) ?? ID_AT_END.exec(end);
  const id: unknown = JSON.parse(found?.groups?.id ?? "null");
  return typeof id === "string" || typeof id === "number" ? id : null;
}
