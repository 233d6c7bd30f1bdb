/**
 * `edit_file`. The SDK's edit tool decodes and re-encodes the file, which destroys bytes that are not UTF-8, and opens by
 * path after its check. This one replaces bytes, and opens by descriptor.
 */
import { z } from "zod";
import { ToolFailure } from "../../../shared/errors.ts";
import { openFile, readHead, replaceFile } from "../files/file.ts";
import { type FileLocation, openLocation } from "../files/open.ts";
import { quotePath } from "../files/path.ts";
import { writeBooked } from "../files/quota.ts";
import { defineTool, type Tool } from "../tool.ts";
import type { Workspace } from "../workspace.ts";

const MAX_EDIT_BYTES = 1024 * 1024;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Replaces one passage of a file, or all its occurrences, and leaves every other byte unchanged. */
export function editFileTool(): Tool {
  return defineTool({
    name: "edit_file",
    description:
      "Replace old_string by new_string in a file. old_string must be copied exactly and occur once: " +
      "add surrounding lines to make it unique, or set replace_all.",
    input: z.object({
      file_path: z.string().describe("Path of the file"),
      old_string: z.string().min(1).describe("The text to replace, exactly as it stands in the file"),
      new_string: z.string().describe("The text to put in its place, taken literally"),
      replace_all: z.boolean().optional().describe("Replace every occurrence; default false"),
    }),
    async run({ file_path: path, old_string, new_string, replace_all = false }, { workspace, signal }) {
      if (old_string === new_string) throw new ToolFailure("old_string and new_string are the same.");
      return workspace.exclusive(async () => {
        if (signal.aborted) throw new ToolFailure("Cancelled before the file was changed.");
        const location = await openLocation(workspace, path, "change");
        try {
          const change = { path, old: old_string, new: new_string, all: replace_all };
          const count = await edit(workspace, location, change, signal);
          return `Edited ${quotePath(path)} (${count} ${count === 1 ? "replacement" : "replacements"}).`;
        } finally {
          await location.directory.handle.close();
        }
      });
    },
  });
}

interface Change {
  readonly path: string;
  readonly old: string;
  readonly new: string;
  readonly all: boolean;
}

async function edit(
  workspace: Workspace,
  location: FileLocation,
  change: Change,
  signal: AbortSignal,
): Promise<number> {
  const file = await openFile(location, change.path);
  let content: Buffer;
  try {
    if (file.stat.size > MAX_EDIT_BYTES) {
      throw new ToolFailure(
        `${quotePath(change.path)} has ${file.stat.size} bytes; files above ${MAX_EDIT_BYTES} are not edited.`,
      );
    }
    content = await readHead(file, MAX_EDIT_BYTES);
  } finally {
    await file.handle.close();
  }
  const { offsets, old, replacement } = find(content, change);
  if (content.length + offsets.length * (replacement.length - old.length) > MAX_EDIT_BYTES) {
    throw new ToolFailure(
      `The edited file would have more than ${MAX_EDIT_BYTES} bytes; nothing was changed.`,
    );
  }
  const edited = splice(content, offsets, old.length, replacement);
  await writeBooked(workspace, location, edited.length, () =>
    replaceFile(location, edited, { path: change.path, signal, unchangedSince: file.stat }),
  );
  return offsets.length;
}

interface Finding {
  readonly offsets: readonly number[];
  readonly old: Buffer;
  readonly replacement: Buffer;
}

/**
 * Finds the passage as written, otherwise with CRLF line ends in place of the model's LF. For a passage within one line, the
 * replacement gets CRLF line ends if the file has no others.
 */
function find(content: Buffer, change: Change): Finding {
  const inCrlf = { ...change, old: withCrlf(change.old), new: withCrlf(change.new) };
  const spellings = change.old.includes("\n") ? [change, inCrlf] : [knowsOnlyCrlf(content) ? inCrlf : change];
  for (const { old, new: replacement } of spellings) {
    const offsets = offsetsOf(content, Buffer.from(old));
    if (offsets.length > 1 && !change.all) {
      throw new ToolFailure(
        `old_string occurs ${offsets.length} times in ${quotePath(change.path)}; add surrounding text to make it ` +
          "unique, or set replace_all.",
      );
    }
    if (offsets.length > 0) return { offsets, old: Buffer.from(old), replacement: Buffer.from(replacement) };
  }
  throw new ToolFailure(
    `old_string does not occur in ${quotePath(change.path)}; read the file and copy it exactly.`,
  );
}

function withCrlf(text: string): string {
  return text.replace(/\r?\n/g, "\r\n");
}

function knowsOnlyCrlf(content: Buffer): boolean {
  let lineEnds = 0;
  for (let i = 0; i < content.length; i++) {
    if (content[i] !== LINE_FEED) continue;
    if (content[i - 1] !== CARRIAGE_RETURN) return false;
    lineEnds++;
  }
  return lineEnds > 0;
}

/**
 * Returns the offsets of `needle`; counts overlapping occurrences once. Linear (Knuth, Morris and Pratt): the built-in
 * search takes minutes for a long passage that almost matches everywhere.
 */
function offsetsOf(content: Buffer, needle: Buffer): number[] {
  if (needle.length > content.length) return [];
  const fallback = new Int32Array(needle.length);
  for (let i = 1, fits = 0; i < needle.length; i++) {
    while (fits > 0 && needle[i] !== needle[fits]) fits = fallback[fits - 1] ?? 0;
    if (needle[i] === needle[fits]) fits++;
    fallback[i] = fits;
  }
  const offsets: number[] = [];
  for (let i = 0, fits = 0; i < content.length; i++) {
    while (fits > 0 && content[i] !== needle[fits]) fits = fallback[fits - 1] ?? 0;
    if (content[i] === needle[fits]) fits++;
    if (fits < needle.length) continue;
    offsets.push(i + 1 - needle.length);
    fits = 0;
  }
  return offsets;
}

/** Copies byte by byte: a million short pieces cost more than their bytes. */
function splice(content: Buffer, offsets: readonly number[], oldLength: number, replacement: Buffer): Buffer {
  const edited = Buffer.allocUnsafe(content.length + offsets.length * (replacement.length - oldLength));
  let at = 0;
  let from = 0;
  for (const offset of offsets) {
    while (from < offset) edited[at++] = content[from++] ?? 0;
    for (const byte of replacement) edited[at++] = byte;
    from = offset + oldLength;
  }
  content.copy(edited, at, from);
  return edited;
}
