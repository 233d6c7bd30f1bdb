/**
 * `write_file`. The SDK's write tool creates directories and renames by path after its check, so a symlink swapped in
 * between moves the write outside. This one works by descriptor.
 */
import { z } from "zod";
import { ToolFailure } from "../../../shared/errors.ts";
import { byteCount } from "../../../shared/protocol/text.ts";
import { writeWhole } from "../files/file.ts";
import { quotePath } from "../files/path.ts";
import { defineTool, type Tool } from "../tool.ts";

const MAX_WRITE_BYTES = 1024 * 1024;

/** Creates or replaces a text file of the workspace or a writable root, and the directories it needs. */
export function writeFileTool(): Tool {
  return defineTool({
    name: "write_file",
    description:
      "Create a text file or replace its whole content; missing directories are made. " +
      "Paths are relative to the workspace. To change a part of a file use edit_file.",
    input: z.object({
      file_path: z.string().describe("Path of the file"),
      content: z.string().describe("The whole new content, at most 1 MB"),
    }),
    idempotent: true,
    async run({ file_path: path, content }, { workspace, signal }) {
      const bytes = Buffer.from(content);
      if (bytes.length > MAX_WRITE_BYTES) {
        throw new ToolFailure(
          `The content has ${bytes.length} bytes, more than ${MAX_WRITE_BYTES}; write several files.`,
        );
      }
      await writeWhole(workspace, path, bytes, signal);
      return `Wrote ${byteCount(bytes.length)} to ${quotePath(path)}.`;
    },
  });
}
