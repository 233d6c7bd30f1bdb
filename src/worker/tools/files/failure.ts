/** Pure: says what the file system refused in words that name only the path the model wrote. */
import { clip, safeText } from "../result-text.ts";
import { ToolFailure } from "../tool.ts";

const PATH_ECHO_CHARS = 200;

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "does not exist",
  ENOTDIR: "goes through something that is not a directory",
  EISDIR: "is a directory, not a file",
  EACCES: "may not be opened (permission denied)",
  EPERM: "may not be changed (permission denied)",
  EROFS: "is on a read-only file system",
  ELOOP: "changed while it was opened; try again",
  ENAMETOOLONG: "has a name that is too long",
  ENOSPC: "cannot be written: the disk is full",
  EDQUOT: "cannot be written: the disk quota is used up",
  EMFILE: "cannot be opened now: too many files are open; try again",
  ENFILE: "cannot be opened now: too many files are open; try again",
};

/** A path as error sentences quote it: JSON spelling, at most 200 characters. */
export function quotePath(path: string): string {
  return JSON.stringify(clip(safeText(path), PATH_ECHO_CHARS));
}

/** Turns a system error into a {@link ToolFailure} about `path`; other errors come back as they are. */
export function plainFailure(error: unknown, path: string): unknown {
  if (error instanceof ToolFailure || !(error instanceof Error) || !("code" in error)) return error;
  const code = String(error.code);
  const reason = REASONS[code] ?? `cannot be used (${code})`;
  const kind = code === "ENOENT" ? "not_found" : code === "ENOTDIR" ? "not_directory" : "other";
  return new ToolFailure(`${quotePath(path)} ${reason}.`, kind);
}
