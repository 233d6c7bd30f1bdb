/**
 * `grep`. The SDK's grep tool hands the pattern and host paths to whatever `rg` the machine has, without a time limit,
 * and prints host paths; this one reads by descriptor and matches on a thread with a time limit.
 */
import { z } from "zod";
import type { Clock } from "../../../shared/clock.ts";
import { openFile, openNamed } from "../confined-file.ts";
import { type Directory, openDirectory, openPlace, type Place } from "../confined-path.ts";
import { createWalkBudget, type WalkStep, walkTree } from "../directory-walk.ts";
import { type FileSearch, searchFile } from "../file-search.ts";
import { compileGlob } from "../glob-pattern.ts";
import type { Expression, LineMatcher, LineMatcherPool } from "../line-matcher.ts";
import { shownPath } from "../path-location.ts";
import { searchWithin } from "../search.ts";
import { defineTool, type Tool, type ToolContext, ToolFailure } from "../tool.ts";

const MAX_OUTPUT_BYTES = 100 * 1024;

/** Searches the contents of files for a regular expression. */
export function grepTool({ matchers, clock }: { matchers: LineMatcherPool; clock: Clock }): Tool {
  return defineTool({
    name: "grep",
    description:
      "Search file contents for a JavaScript regular expression, line by line; results are path:line:text. " +
      "Start the pattern with (?i) to ignore case. Searches the workspace, or the file or directory given as path; " +
      "glob narrows the files, for example *.ts. Binary files, .git, node_modules and what .gitignore names are left out.",
    input: z.object({
      pattern: z.string().min(1).max(1_000).describe("Regular expression"),
      path: z.string().optional().describe("File or directory to search; default: the workspace"),
      glob: z.string().min(1).max(1_000).optional().describe("Only files whose path or name matches"),
    }),
    idempotent: true,
    async run({ pattern, path, glob }, ctx) {
      const expression = compilePattern(pattern);
      const filter = glob === undefined ? undefined : compileGlob(anywhere(glob));
      const start = await openStart(ctx, path || ".");
      const output = createOutput();
      const means = { matchers, clock, signal: ctx.signal };
      const notice = await searchWithin(means, start.directory, async (matcher, signal) => {
        const search: FileSearch = { matcher, expression, signal, emit: output.emit };
        if ("name" in start) return searchNamed(start, path ?? "", search, output);
        await searchTree(start.directory, { ctx, filter, search, output });
      });
      return output.text(notice);
    },
  });
}

interface TreeSearch {
  readonly ctx: ToolContext;
  readonly filter: Expression | undefined;
  readonly search: FileSearch;
  readonly output: Output;
}

async function searchTree(start: Directory, { ctx, filter, search, output }: TreeSearch): Promise<void> {
  const budget = createWalkBudget();
  const depth = start.segments.length;
  const { matcher, signal } = search;
  const options = { budget, hidden: ctx.workspace.hidden, signal, matcher };
  for await (const step of walkTree(start, options)) {
    const names = filter === undefined ? step.names : await filtered(matcher, filter, step, depth);
    for (const name of names) {
      if (signal.aborted || output.full()) return;
      const path = shownPath(step.directory.area, [...step.directory.segments, name]);
      // A file that vanished, may not be read or is not ours to open is no match; naming it would not help.
      const file = await openNamed(step.directory, name, path).catch(() => undefined);
      if (file === undefined) continue;
      try {
        const ending = await searchFile(file, path, search);
        if (ending === "partly") output.note(`only the first 16 MB of ${path} were searched`);
      } finally {
        await file.handle.close();
      }
    }
  }
  if (budget.exhausted) output.note("stopped after 50,000 entries; narrow the path");
}

async function searchNamed(place: Place, spelled: string, search: FileSearch, output: Output): Promise<void> {
  const path = shownPath(place.directory.area, [...place.directory.segments, place.name]);
  const file = await openFile(place, spelled);
  try {
    const ending = await searchFile(file, path, search);
    if (ending === "binary") throw new ToolFailure("The file is binary and was not searched.");
    if (ending === "partly") output.note(`only the first 16 MB of ${path} were searched`);
  } finally {
    await file.handle.close();
  }
}

async function openStart(ctx: ToolContext, path: string): Promise<Place | { directory: Directory }> {
  try {
    return { directory: await openDirectory(ctx.workspace, path) };
  } catch (error) {
    if (!(error instanceof ToolFailure) || error.reason !== "not_directory") throw error;
    return openPlace(ctx.workspace, path);
  }
}

async function filtered(
  matcher: LineMatcher,
  filter: Expression,
  { directory, names }: WalkStep,
  depth: number,
): Promise<string[]> {
  const below = directory.segments.slice(depth);
  const hits = await matcher.match(
    filter,
    names.map((name) => [...below, name].join("/")),
  );
  return hits.flatMap((index) => names[index] ?? []);
}

/** A name without a slash matches in every directory; a leading `!` turns the whole around, it is no part of a name. */
function anywhere(glob: string): string {
  if (glob.includes("/")) return glob;
  return glob.startsWith("!") && !glob.startsWith("!(") ? `!**/${glob.slice(1)}` : `**/${glob}`;
}

function compilePattern(pattern: string): Expression {
  const ignoreCase = pattern.startsWith("(?i)");
  const source = ignoreCase ? pattern.slice("(?i)".length) : pattern;
  const flags = `${ignoreCase ? "i" : ""}${/\\[pPu]\{/.test(source) ? "u" : ""}`;
  try {
    new RegExp(source, flags);
  } catch (error) {
    const why = error instanceof Error ? error.message : "invalid";
    throw new ToolFailure(`The pattern is not a valid JavaScript regular expression: ${why}.`);
  }
  return { source, flags };
}

interface Output {
  /** Adds a line; false when there is no room for more. */
  emit(line: string): boolean;
  note(notice: string): void;
  full(): boolean;
  text(notice: string | undefined): string;
}

function createOutput(): Output {
  const lines: string[] = [];
  const notes: string[] = [];
  let room = MAX_OUTPUT_BYTES;
  return {
    emit(line) {
      room -= Buffer.byteLength(line) + 1;
      if (room >= 0) lines.push(line);
      return room >= 0;
    },
    note: (notice) => void notes.push(notice),
    full: () => room < 0,
    text(notice) {
      if (room < 0) notes.push("stopped after 100 KB of matches; use a narrower pattern, path or glob");
      if (notice !== undefined) notes.push(notice);
      const body = lines.length === 0 ? ["no matches"] : lines;
      return [...body, ...notes.slice(0, 10).map((note) => `[${note}]`)].join("\n");
    },
  };
}
