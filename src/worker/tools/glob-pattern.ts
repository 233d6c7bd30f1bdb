/** Pure: what a glob pattern means, as a directory to start from and an expression for the paths below it. */
import picomatch from "picomatch";
import type { Expression } from "./line-matcher.ts";
import { ToolFailure } from "./tool.ts";

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

/** What picomatch compiles to when a pattern can match nothing, such as one with unbalanced braces. */
const NOTHING = "$^";

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

/**
 * Compiles a pattern for relative paths; dot files match like others.
 *
 * @throws {ToolFailure} when the pattern can match nothing because it is malformed.
 */
export function compileGlob(pattern: string): Expression {
  let compiled: RegExp | false;
  try {
    compiled = picomatch.makeRe(pattern, { dot: true });
  } catch {
    compiled = false;
  }
  if (!compiled || compiled.source === NOTHING) {
    throw new ToolFailure("The pattern is malformed: check that its brackets and braces are balanced.");
  }
  return { source: compiled.source, flags: compiled.flags };
}
