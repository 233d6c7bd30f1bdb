/** Pure: finds the area of a path, by its text only, and formats a path in an area for a model. */
import { isAbsolute, join, resolve } from "node:path";
import { type FailureReason, ToolFailure } from "../../../shared/errors.ts";
import { quoted } from "../../../shared/protocol/text.ts";
import { safeText } from "../result-text.ts";
import type { Area, Workspace } from "../workspace.ts";

/** An area and the components below it; free of `.` and `..`, but a component may still be a link. */
export interface Target {
  readonly area: Area;
  readonly segments: readonly string[];
}

const MAX_PATH_BYTES = 4_096;
const MAX_DEPTH = 100;

/** Formats a path for models: relative in the workspace, absolute in a root. Replaces control characters. */
export function shownPath(area: Area, segments: readonly string[]): string {
  const below = segments.join("/");
  const shown = area.kind === "workspace" ? below || "." : below ? `${area.shownAs}/${below}` : area.shownAs;
  return shown.replace(/\p{Cc}/gu, "\uFFFD");
}

/** Resolves the model's path: relative in the workspace, absolute in an open root. */
export function locate(workspace: Workspace, path: string): Target {
  const shown = quotePath(path);
  if (path === "") throw new ToolFailure("The path is empty.");
  if (path.includes("\0")) throw new ToolFailure(`${shown} contains a NUL character.`);
  if (/\p{Surrogate}/u.test(path)) throw new ToolFailure(`${shown} is not valid Unicode.`);
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) throw new ToolFailure(`${shown} is longer than 4,096 bytes.`);
  if (path === "~" || path.startsWith("~/")) {
    throw new ToolFailure(`${shown}: there is no home directory; use a path relative to the workspace.`);
  }
  if (!isAbsolute(path)) {
    const absolute = resolve(workspace.directory, path);
    if (!isWithin(workspace.directory, absolute)) throw outside(workspace, path);
    return below(workspace.home, absolute, path);
  }
  return relocate(workspace, path, path);
}

/** Resolves the target of a link, given as an absolute path. */
export function relocate(workspace: Workspace, absolute: string, path: string): Target {
  return areaOf(workspace, asReal(workspace, resolve(absolute)), path);
}

/** Rewrites an absolute path that uses an operator's spelling of a root into one without links above the root. */
function asReal(workspace: Workspace, absolute: string): string {
  const root = deepest(
    workspace.roots.filter((area) => isWithin(area.shownAs, absolute)),
    (area) => area.shownAs,
  );
  return root === undefined ? absolute : join(root.path, absolute.slice(root.shownAs.length));
}

function areaOf(workspace: Workspace, absolute: string, path: string): Target {
  if (isWithin(workspace.directory, absolute)) return below(workspace.home, absolute, path);
  const area = deepest(
    workspace.roots.filter((root) => isWithin(root.path, absolute)),
    (root) => root.path,
  );
  if (area === undefined || isWithin(workspace.hidden, absolute)) throw outside(workspace, path);
  return below(area, absolute, path);
}

function below(area: Area, absolute: string, path: string): Target {
  const segments = absolute
    .slice(area.path.length)
    .split("/")
    .filter((segment) => segment !== "");
  if (segments.length > MAX_DEPTH) throw new ToolFailure(`${quotePath(path)} is nested too deeply.`);
  return { area, segments };
}

function outside(workspace: Workspace, path: string): ToolFailure {
  const allowed = workspace.roots.map((root) => root.shownAs);
  const also = allowed.length === 0 ? "" : ` or an absolute one below ${allowed.join(", ")}`;
  return new ToolFailure(
    `${quotePath(path)} is outside what you may use; use a path relative to the workspace${also}.`,
  );
}

/** Checks whether `path` is `directory` or below it, compared component by component. */
function isWithin(directory: string, path: string): boolean {
  return path === directory || path.startsWith(directory.endsWith("/") ? directory : `${directory}/`);
}

function deepest(areas: readonly Area[], spelling: (area: Area) => string): Area | undefined {
  return [...areas].sort((a, b) => spelling(b).length - spelling(a).length)[0];
}

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
/** Reasons of failures that a caller tells apart; all others are `other`. */
const KINDS: Readonly<Record<string, FailureReason>> = {
  ENOENT: "not_found",
  ENOTDIR: "not_directory",
  EMFILE: "unavailable",
  ENFILE: "unavailable",
};

/** Quotes a path for an error message: JSON spelling, at most 200 characters. */
export function quotePath(path: string): string {
  return quoted(safeText(path), PATH_ECHO_CHARS);
}

/** Turns a system error into a {@link ToolFailure} about `path`; returns other errors unchanged. */
export function plainFailure(error: unknown, path: string): unknown {
  if (error instanceof ToolFailure || !(error instanceof Error) || !("code" in error)) return error;
  const code = String(error.code);
  const reason = REASONS[code] ?? `cannot be used (${code})`;
  return new ToolFailure(`${quotePath(path)} ${reason}.`, KINDS[code]);
}
