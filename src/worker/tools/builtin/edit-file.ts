/**
 * `edit_file`. The SDK's edit tool decodes and re-encodes the file, which destroys bytes that are not UTF-8, and opens
 * by path after its check; here bytes are replaced in bytes, below a descriptor.
 */
import { z } from "zod";
import { openFile, readHead, replaceFile } from "../confined-file.ts";
import { openPlace, type Place } from "../confined-path.ts";
import { quotePath } from "../path-failure.ts";
import { defineTool, type Tool, ToolFailure } from "../tool.ts";

const MAX_EDIT_BYTES = 1024 * 1024;

/** Replaces one passage of a file, or all its occurrences, and leaves every other byte as it is. */
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
        const place = await openPlace(workspace, path, "change");
        try {
          const change = { path, old: old_string, new: new_string, all: replace_all };
          const count = await edit(place, change, signal);
          return `Edited ${quotePath(path)} (${count} ${count === 1 ? "replacement" : "replacements"}).`;
        } finally {
          await place.directory.handle.close();
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

async function edit(place: Place, change: Change, signal: AbortSignal): Promise<number> {
  const file = await openFile(place, change.path);
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
  await replaceFile(place, edited, { path: change.path, signal, unchangedSince: file.stat });
  return offsets.length;
}

interface Finding {
  readonly offsets: readonly number[];
  readonly old: Buffer;
  readonly replacement: Buffer;
}

/** Finds the passage as written, else with the file's own CRLF line ends where the model wrote LF. */
function find(content: Buffer, change: Change): Finding {
  const spellings = [change, { ...change, old: withCrlf(change.old), new: withCrlf(change.new) }];
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

function offsetsOf(content: Buffer, needle: Buffer): number[] {
  const offsets: number[] = [];
  for (let at = content.indexOf(needle); at >= 0; at = content.indexOf(needle, at + needle.length))
    offsets.push(at);
  return offsets;
}

function splice(content: Buffer, offsets: readonly number[], oldLength: number, replacement: Buffer): Buffer {
  const parts: Buffer[] = [];
  let from = 0;
  for (const at of offsets) {
    parts.push(content.subarray(from, at), replacement);
    from = at + oldLength;
  }
  return Buffer.concat([...parts, content.subarray(from)]);
}
