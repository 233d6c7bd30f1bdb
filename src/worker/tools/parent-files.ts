/** Writes files that a parent sent into the workspace, except where its model may not write. */

import { ToolFailure } from "../../shared/errors.ts";
import { type Attached, REFERENCE_MAX_BYTES } from "../../shared/protocol/message.ts";
import { byteCount } from "../../shared/protocol/text.ts";
import { openFile, readHead, requireSingleName, writeWhole } from "./files/file.ts";
import { openLocation } from "./files/open.ts";
import { quotePath } from "./files/path.ts";
import type { Workspace } from "./workspace.ts";

/** Writes the files. Returns notes for the model: which files are there now, and which could not be written. */
export async function writeParentFiles(
  workspace: Workspace,
  files: Attached["files"],
  signal: AbortSignal,
): Promise<string[]> {
  // Only into the workspace: a link that the agent left there must not lead the parent's files elsewhere.
  const inside: Workspace = { ...workspace, roots: [] };
  const [written, refused]: [string[], string[]] = [[], []];
  for (const { path, content, base64 = "", from } of files) {
    try {
      const bytes =
        from === undefined
          ? Buffer.from(content ?? base64, content === undefined ? "base64" : "utf8")
          : await readReference(workspace, from);
      await writeWhole(inside, path, bytes, signal);
      written.push(`${quotePath(path)} (${byteCount(bytes.length)})`);
    } catch (error) {
      if (!(error instanceof ToolFailure)) throw error;
      refused.push(error.message);
    }
  }
  const notes =
    written.length > 0 ? [`Files of this message, in your workspace: ${written.join(", ")}.`] : [];
  if (refused.length > 0) notes.push(`Files of this message that could not be written: ${refused.join(" ")}`);
  return notes;
}

/**
 * Reads a file that a parent named, under the rules of the agent's tools: below the opened directories, on their file
 * system, and no file that may hold secrets. Also refuses a file with a second name, because that name might be refused.
 */
async function readReference(workspace: Workspace, from: string): Promise<Buffer> {
  const location = await openLocation(workspace, from);
  const { directory, name } = location;
  try {
    if (directory.area.kind !== "root") {
      throw new ToolFailure(`${quotePath(from)} is not in a directory that is open to this worker.`);
    }
    const file = await openFile(location, from);
    try {
      await requireSingleName(directory, name, file.stat, from);
      const bytes = await readHead(file, REFERENCE_MAX_BYTES + 1);
      if (bytes.length <= REFERENCE_MAX_BYTES) return bytes;
      throw new ToolFailure(
        `${quotePath(from)} has more than ${REFERENCE_MAX_BYTES / 1024 ** 2} MB; read it in parts.`,
      );
    } finally {
      await file.handle.close();
    }
  } finally {
    await directory.handle.close();
  }
}
