/**
 * `glob`. The SDK's glob tool needs Node 22 (`fs.glob`), prints host paths and matches on the main thread; this one
 * walks by descriptor and matches on a thread with a time limit.
 */
import { lstat } from "node:fs/promises";
import { z } from "zod";
import type { Clock } from "../../../shared/clock.ts";
import { type Directory, openDirectory, pathIn } from "../confined-path.ts";
import { createWalkBudget, type WalkStep, walkTree } from "../directory-walk.ts";
import { compileGlob, splitGlob } from "../glob-pattern.ts";
import type { Expression, LineMatcher, LineMatcherPool } from "../line-matcher.ts";
import { shownPath } from "../path-location.ts";
import { searchWithin } from "../search.ts";
import { defineTool, type Tool, type ToolContext, ToolFailure } from "../tool.ts";

const MAX_RESULTS = 200;

interface Match {
  readonly path: string;
  readonly modifiedMs: number;
}

/** Finds files by name, newest first. */
export function globTool({ matchers, clock }: { matchers: LineMatcherPool; clock: Clock }): Tool {
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
      const expression = compileGlob(rest);
      const start = await openBase(ctx, base, path);
      if (start === undefined) return "no matches";
      const depth = start.segments.length;
      const budget = createWalkBudget();
      const found: Match[] = [];
      const notice = await searchWithin(
        { matchers, clock, signal: ctx.signal },
        start,
        async (matcher, signal) => {
          for await (const step of walkTree(start, {
            budget,
            hidden: ctx.workspace.hidden,
            signal,
            matcher,
            maxDepth,
          })) {
            found.push(...(await matchStep(matcher, expression, step, depth)));
          }
        },
      );
      return report(
        found,
        budget.exhausted ? "stopped after 50,000 entries; narrow the pattern or path" : notice,
      );
    },
  });
}

async function openBase(
  ctx: ToolContext,
  base: string,
  path: string | undefined,
): Promise<Directory | undefined> {
  try {
    return await openDirectory(ctx.workspace, base);
  } catch (error) {
    const absent = error instanceof ToolFailure && error.reason !== "other";
    if (absent && base !== path) return undefined;
    throw error;
  }
}

async function matchStep(
  matcher: LineMatcher,
  expression: Expression,
  { directory, names }: WalkStep,
  depth: number,
): Promise<Match[]> {
  const below = directory.segments.slice(depth);
  const hits = await matcher.match(
    expression,
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
