/** Searches one open file line by line, in bounded memory for any content. */
import { clip } from "../../../shared/protocol/text.ts";
import type { OpenFile } from "../files/file.ts";
import type { Matcher } from "./matcher.ts";
import type { Expression } from "./request.ts";

/** Options of a search in one file. */
export interface FileSearch {
  readonly matcher: Matcher;
  readonly expression: Expression;
  readonly signal: AbortSignal;
  /** Takes a match as `path:line:text`; false ends the search. */
  emit(line: string): boolean;
}

/** How a search ended; `partly`: only the first part of the file was searched. */
export type SearchEnding = "searched" | "binary" | "partly" | "stopped";

/** Lines are searched and shown up to this many characters; an ellipsis marks a longer line. */
const MAX_LINE_CHARS = 2_000;

const MAX_FILE_BYTES = 16 * 1024 * 1024;
const CHUNK_BYTES = 256 * 1024;
/** Enough bytes for the searched characters, in any script. */
const MAX_LINE_BYTES = MAX_LINE_CHARS * 4;

/** Searches the first 16 MB. At a NUL byte the search ends, because the file is binary. */
export async function searchFile(file: OpenFile, path: string, search: FileSearch): Promise<SearchEnding> {
  const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, Math.max(4_096, file.stat.size)));
  const lines = createLineSplitter();
  let position = 0;
  for (;;) {
    if (search.signal.aborted) return "stopped";
    if (position >= MAX_FILE_BYTES) return "partly";
    const { bytesRead } = await file.handle.read(chunk, 0, chunk.length, position);
    const bytes = chunk.subarray(0, bytesRead);
    if (bytes.includes(0)) return "binary";
    position += bytesRead;
    const batch = bytesRead === 0 ? lines.finish() : lines.push(bytes);
    if (batch.texts.length > 0) {
      for (const index of await search.matcher.lines(search.expression, batch.texts)) {
        if (!search.emit(`${path}:${batch.firstLine + index}:${batch.texts[index]}`)) return "stopped";
      }
    }
    if (bytesRead === 0) return "searched";
  }
}

interface LineBatch {
  /** Number of the first line, counted from 1. */
  readonly firstLine: number;
  readonly texts: readonly string[];
}

interface LineSplitter {
  push(bytes: Buffer): LineBatch;
  finish(): LineBatch;
}

/** Splits chunks into lines; keeps at most `MAX_LINE_BYTES` of the unfinished line between chunks. */
function createLineSplitter(): LineSplitter {
  let carry: Buffer = Buffer.alloc(0);
  let line = 1;
  const batchOf = (texts: string[]): LineBatch => {
    const firstLine = line;
    line += texts.length;
    return { firstLine, texts };
  };
  return {
    push(bytes) {
      const newline = bytes.lastIndexOf(0x0a);
      const tail = bytes.subarray(newline + 1);
      const room = Math.max(0, MAX_LINE_BYTES - carry.length);
      if (newline < 0) {
        carry = Buffer.concat([carry, tail.subarray(0, room)]);
        return batchOf([]);
      }
      const texts = Buffer.concat([carry, bytes.subarray(0, newline)])
        .toString("utf8")
        .split("\n")
        .map(shortened);
      carry = Buffer.from(tail.subarray(0, MAX_LINE_BYTES));
      return batchOf(texts);
    },
    finish: () => batchOf(carry.length === 0 ? [] : [shortened(carry.toString("utf8"))]),
  };
}

function shortened(line: string): string {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  return clip(text, MAX_LINE_CHARS);
}
