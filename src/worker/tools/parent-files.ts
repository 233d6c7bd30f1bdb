/** Files that a parent sent, on their way into the workspace: what its model may not write, they may not be either. */
import type { Attached } from "../../shared/protocol/attachments.ts";
import { quotePath } from "./files/failure.ts";
import { writeWhole } from "./files/write.ts";
import { ToolFailure } from "./tool.ts";
import type { Workspace } from "./workspace.ts";

/** Writes them, and says for the model which are there now and which are not. */
export async function writeParentFiles(
  workspace: Workspace,
  files: Attached["files"],
  signal: AbortSignal,
): Promise<string[]> {
  // What a parent sends is for the workspace: a link that the agent left there leads it nowhere else.
  const inside: Workspace = { ...workspace, roots: [] };
  const [written, refused]: [string[], string[]] = [[], []];
  for (const { path, content, base64 = "" } of files) {
    const bytes = content === undefined ? Buffer.from(base64, "base64") : Buffer.from(content);
    try {
      await writeWhole(inside, path, bytes, signal);
      written.push(`${quotePath(path)} (${bytes.length} bytes)`);
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
