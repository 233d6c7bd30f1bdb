/**
 * `glob`. The SDK's glob tool needs Node 22 (`fs.glob`), prints host paths and matches on the main thread. This one walks by
 * descriptor and matches in a process with limits of time and memory.
 */
import { lstat } from "node:fs/promises";
import { z } from "zod";
import { ToolFailure } from "../../../shared/errors.ts";
import { createWalkBudget, pathIn } from "../../../shared/open-directory.ts";
import { openDirectory } from "../files/open.ts";
import { shownPath } from "../files/path.ts";
import type { Matcher } from "../search/matcher.ts";
import { type SearchMeans, type SearchStart, searchWithin } from "../search/search.ts";
import { TOO_DEEP, type WalkStep, walkFiles } from "../search/walk.ts";
import { defineTool, type Tool, type ToolContext } from "../tool.ts";

const MAX_RESULTS = 200;

interface Match {
  readonly path: string;
  readonly modifiedMs: number;
}

/** Finds files by name, newest first. */
export function globTool(means: SearchMeans): Tool {
  return defineTool({
    name: "glob",
    description:
      "Find files by name, newest first, one path a line, at most 200. Patterns: * ? ** [abc] {a,b}, for example " +
      "src/**/*.{ts,tsx}. Searches the workspace, or the directory given as path. What .gitignore names is left out, as are .git and node_modules.",
    input: z.object({
      pattern: z.string().min(1).max(1_000).describe("Glob pattern, relative to path"),
      path: z.string().optional().describe("Directory to search; default: the workspace"),
    }),
    idempotent: true,
    async run({ pattern, path }, ctx) {
      const { base, rest, maxDepth } = splitGlob(pattern, path);
      const budget = createWalkBudget();
      const found: Match[] = [];
      const open = () => openBase(ctx, base, path);
      const notice = await searchWithin(means, ctx, open, async ({ directory }, matcher, signal) => {
        // Rejects a malformed glob even if there are no files to search.
        await matcher.paths(rest, []);
        const options = { budget, hidden: ctx.workspace.hidden, signal, matcher, maxDepth };
        for await (const step of walkFiles(directory, options)) {
          found.push(...(await matchStep(matcher, rest, step, directory.segments.length)));
        }
      });
      const cut = budget.exhausted ? "stopped after 50,000 entries; narrow the pattern or path" : notice;
      return report(found, cut ?? (budget.tooDeep ? TOO_DEEP : undefined));
    },
  });
}

/** A pattern cut after its last plain leading component. */
interface SplitGlob {
  /** Directory to start from; `.` is the workspace. */
  readonly base: string;
  /** The pattern relative to `base`; never empty. */
  readonly rest: string;
  /** Number of directory levels the pattern can reach, counted from `base`; infinite with `**`. */
  readonly maxDepth: number;
}

const MAGIC = /[*?[\]{}()!+@|\\]/;

/**
 * Splits `pattern`, read relative to `path` (default: the workspace).
 *
 * @throws {ToolFailure} if the pattern contains `..`, is absolute beside a `path`, or names a directory.
 */
function splitGlob(pattern: string, path: string | undefined): SplitGlob {
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
  const plain = segments.slice(0, magicAt < 0 ? segments.length - 1 : magicAt);
  const rest = segments.slice(plain.length).join("/");
  const lead = pattern.startsWith("/") ? "/" : path === undefined || path === "" ? "" : `${path}/`;
  const base = plain.length > 0 ? `${lead}${plain.join("/")}` : pattern.startsWith("/") ? "/" : path || ".";
  return { base, rest, maxDepth: rest.includes("**") ? Number.POSITIVE_INFINITY : rest.split("/").length };
}

async function openBase(
  ctx: ToolContext,
  base: string,
  path: string | undefined,
): Promise<SearchStart | undefined> {
  try {
    return { directory: await openDirectory(ctx.workspace, base) };
  } catch (error) {
    const isAbsent = error instanceof ToolFailure && ["not_found", "not_directory"].includes(error.reason);
    if (isAbsent && base !== path) return undefined;
    throw error;
  }
}

async function matchStep(
  matcher: Matcher,
  glob: string,
  { directory, names }: WalkStep,
  depth: number,
): Promise<Match[]> {
  const below = directory.segments.slice(depth);
  const hits = await matcher.paths(
    glob,
    names.map((name) => [...below, name].join("/")),
  );
  const matches: Match[] = [];
  for (const name of hits.flatMap((index) => names[index] ?? [])) {
    const stat = await lstat(pathIn(directory, name)).catch(() => undefined);
    if (stat === undefined) continue;
    matches.push({
      path: shownPath(directory.area, [...directory.segments, name]),
      modifiedMs: stat.mtimeMs,
    });
  }
  return matches;
}

function report(found: readonly Match[], notice: string | undefined): string {
  const newest = [...found].sort((a, b) => b.modifiedMs - a.modifiedMs || (a.path < b.path ? -1 : 1));
  const lines = newest.slice(0, MAX_RESULTS).map((match) => match.path);
  if (lines.length === 0) lines.push("no matches");
  if (newest.length > MAX_RESULTS) lines.push(`[${MAX_RESULTS} of ${newest.length} matches, newest first]`);
  if (notice !== undefined) lines.push(`[${notice}]`);
  return lines.join("\n");
}
