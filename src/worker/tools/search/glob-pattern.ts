/** Pure: cuts a glob into the directory to start from and the part that is matched below it. */
import { ToolFailure } from "../../../shared/errors.ts";

/** A pattern cut after its last plain leading component. */
export interface SplitGlob {
  /** Where to start; `.` is the workspace. */
  readonly base: string;
  /** The pattern relative to `base`; never empty. */
  readonly rest: string;
  /** How many levels of directories the pattern can reach, counted from `base`; infinite with `**`. */
  readonly maxDepth: number;
}

const MAGIC = /[*?[\]{}()!+@|\\]/;

/**
 * Splits `pattern`, read relative to `path` (default: the workspace).
 *
 * @throws {ToolFailure} when the pattern climbs (`..`), is absolute beside a `path`, or names a directory.
 */
export function splitGlob(pattern: string, path: string | undefined): SplitGlob {
  if (pattern.split(/[\\/{},()|]/).includes("..")) {
    throw new ToolFailure('".." is not permitted in a pattern; give the directory as path.');
  }
  if (pattern.startsWith("/") && path !== undefined) {
    throw new ToolFailure("An absolute pattern cannot be combined with path; make the pattern relative.");
  }
  if (pattern.includes("\0")) throw new ToolFailure("The pattern contains a NUL character.");
  const segments = pattern.split("/").filter((segment) => segment !== "" && segment !== ".");
  if (segments.length === 0 || pattern.endsWith("/")) {
    throw new ToolFailure("The pattern names a directory; add /** for the files in it.");
  }
  const magicAt = segments.findIndex((segment) => MAGIC.test(segment));
  const plain = segments.slice(0, magicAt < 0 ? segments.length - 1 : Math.min(magicAt, segments.length - 1));
  const rest = segments.slice(plain.length).join("/");
  const lead = pattern.startsWith("/") ? "/" : path === undefined || path === "" ? "" : `${path}/`;
  const base = plain.length > 0 ? `${lead}${plain.join("/")}` : pattern.startsWith("/") ? "/" : path || ".";
  return { base, rest, maxDepth: rest.includes("**") ? Number.POSITIVE_INFINITY : rest.split("/").length };
}
