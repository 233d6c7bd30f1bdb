/** Writes a whole file where a path leads, within the quota of the workspace. */
import { ToolFailure } from "../tool.ts";
import type { Workspace } from "../workspace.ts";
import { replaceFile } from "./file.ts";
import { openPlace } from "./open.ts";
import { bookPlace } from "./quota.ts";

/**
 * Creates or replaces the file at `path`, with the directories it needs, after all writes that were handed in before it.
 *
 * @throws {ToolFailure} when the path leads outside, the workspace is full, the system refuses, or `signal` is aborted.
 */
export function writeWhole(
  workspace: Workspace,
  path: string,
  bytes: Buffer,
  signal: AbortSignal,
): Promise<void> {
  return workspace.exclusive(async () => {
    if (signal.aborted) throw new ToolFailure("Cancelled before the file was written.");
    const place = await openPlace(workspace, path, "create");
    try {
      await bookPlace(workspace, place, bytes.length);
      await replaceFile(place, bytes, { path, signal });
    } finally {
      await place.directory.handle.close();
    }
  });
}
