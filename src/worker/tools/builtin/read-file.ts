/**
 * `read_file`. The SDK's read tool opens by path after its check; a symlink swapped in between led it outside in one call of
 * twenty. Callers cannot prevent this, so this one opens files by descriptor.
 */
import { z } from "zod";
import { ToolFailure } from "../../../shared/errors.ts";
import { type OpenFile, openFile, readHead } from "../files/file.ts";
import { openLocation } from "../files/open.ts";
import { quotePath } from "../files/path.ts";
import { defineTool, type Tool } from "../tool.ts";

const MAX_READ_BYTES = 256 * 1024;
const MAX_SCAN_BYTES = 64 * 1024 * 1024;
const CHUNK_BYTES = 256 * 1024;
const NEWLINE = 0x0a;

/** Reads a text file of the workspace or an open root, whole or a range of lines. */
export function readFileTool(): Tool {
  return defineTool({
    name: "read_file",
    description:
      "Read a text file. Paths are relative to the workspace, or absolute inside an open directory. " +
      "Use view_range for files above 256 KB or when only some lines matter.",
    input: z.object({
      file_path: z.string().describe("Path of the file"),
      view_range: z
        .array(z.int())
        .length(2)
        .optional()
        .describe("[first_line, last_line], counted from 1, both included; last_line -1 means the end"),
    }),
    idempotent: true,
    async run({ file_path: path, view_range: range }, { workspace, signal }) {
      const location = await openLocation(workspace, path);
      try {
        const file = await openFile(location, path);
        try {
          return range === undefined
            ? await readWhole(file, path)
            : await readLines(file, path, rangeOf(range), signal);
        } finally {
          await file.handle.close();
        }
      } finally {
        await location.directory.handle.close();
      }
    },
  });
}

interface LineRange {
  readonly first: number;
  readonly last: number;
}

function rangeOf([first = 0, last = 0]: readonly number[]): LineRange {
  if (first < 1 || (last !== -1 && last < first)) {
    throw new ToolFailure(
      "view_range must be [first_line, last_line] with 1 <= first_line <= last_line, or -1 as the last.",
    );
  }
  return { first, last: last === -1 ? Number.POSITIVE_INFINITY : last };
}

async function readWhole(file: OpenFile, path: string): Promise<string> {
  if (file.stat.size > MAX_READ_BYTES) {
    throw new ToolFailure(
      `${quotePath(path)} has ${file.stat.size} bytes, more than ${MAX_READ_BYTES}; read a part with view_range, ` +
        "for example [1, 500], or find the place with grep.",
    );
  }
  const bytes = await readHead(file, MAX_READ_BYTES);
  return bytes.length === 0 ? "(empty file)" : bytes.toString("utf8");
}

/** Collects whole lines from a stream of chunks, so that neither a huge file nor a huge line is held in memory. */
async function readLines(
  file: OpenFile,
  path: string,
  range: LineRange,
  signal: AbortSignal,
): Promise<string> {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  const kept: Buffer[] = [];
  let room = MAX_READ_BYTES;
  let line = 1;
  let position = 0;
  let endsWithNewline = true;
  while (line <= range.last && room > 0) {
    if (signal.aborted) throw new ToolFailure("Cancelled while the file was read.");
    if (position >= MAX_SCAN_BYTES) return partial(kept, path, range);
    const { bytesRead } = await file.handle.read(chunk, 0, chunk.length, position);
    if (bytesRead === 0) break;
    position += bytesRead;
    endsWithNewline = chunk[bytesRead - 1] === NEWLINE;
    const bytes = chunk.subarray(0, bytesRead);
    const before = passLines(bytes, 0, range.first - line);
    line += before.lines;
    const wanted = passLines(bytes, before.end, range.last - line + 1);
    line += wanted.lines;
    if (wanted.end === before.end) continue;
    const part = Buffer.from(bytes.subarray(before.end, wanted.end));
    kept.push(part);
    room -= part.length;
  }
  const lines = line - (endsWithNewline ? 1 : 0);
  if (kept.length === 0) throw new ToolFailure(`${quotePath(path)} has only ${lines} lines.`);
  const text = Buffer.concat(kept).toString("utf8");
  const isWhole = room > 0 || line > range.last || position >= file.stat.size;
  return isWhole ? text : `${text}\n[cut here: more than ${MAX_READ_BYTES} bytes; ask for fewer lines]`;
}

/**
 * Returns the position behind at most `most` more lines of `bytes`, and their number. Counts byte by byte: a search for each
 * end of a quarter of a million empty lines blocks all other runs.
 */
function passLines(bytes: Buffer, from: number, most: number): { end: number; lines: number } {
  let end = from;
  let lines = 0;
  while (end < bytes.length && lines < most) if (bytes[end++] === NEWLINE) lines++;
  return { end, lines };
}

function partial(kept: readonly Buffer[], path: string, { first }: LineRange): string {
  if (kept.length === 0) {
    throw new ToolFailure(
      `Line ${first} of ${quotePath(path)} lies beyond its first 64 MB, which is as far as it is read.`,
    );
  }
  return `${Buffer.concat(kept).toString("utf8")}\n[stopped here: only the first 64 MB of a file are read]`;
}
