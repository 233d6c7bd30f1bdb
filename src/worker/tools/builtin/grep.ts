/**
 * `grep`. The SDK's grep tool passes the pattern and host paths to the machine's `rg`, without a time limit, and prints host
 * paths. This one reads by descriptor and matches in a process with limits of time and memory.
 */
import { z } from "zod";
import { ToolFailure } from "../../../shared/errors.ts";
import { createWalkBudget } from "../../../shared/open-directory.ts";
import { openFile, openNamed } from "../files/file.ts";
import { type Directory, type FileLocation, openDirectory, openLocation } from "../files/open.ts";
import { shownPath } from "../files/path.ts";
import { type FileSearch, searchFile } from "../search/lines.ts";
import type { Matcher } from "../search/matcher.ts";
import type { Expression } from "../search/request.ts";
import { type SearchMeans, type SearchStart, searchWithin } from "../search/search.ts";
import { leftOut, TOO_DEEP, type WalkStep, walkFiles } from "../search/walk.ts";
import { defineTool, type Tool, type ToolContext } from "../tool.ts";

/** Maximum length of all matches, in characters: with its notes, the text is not longer than a tool result may be. */
const MAX_MATCH_CHARS = 48_000;

/** Searches the contents of files for a regular expression. */
export function grepTool(means: SearchMeans): Tool {
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
      const expression = expressionOf(pattern);
      const filter = glob === undefined ? undefined : anywhere(glob);
      const output = createOutput();
      const open = () => openStart(ctx, path || ".");
      const notice = await searchWithin(means, ctx, open, async (start, matcher, signal) => {
        // Rejects an invalid pattern even if there are no files to search.
        await matcher.lines(expression, []);
        if (filter !== undefined) await matcher.paths(filter, []);
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
  /** A glob. */
  readonly filter: string | undefined;
  readonly search: FileSearch;
  readonly output: Output;
}

async function searchTree(start: Directory, { ctx, filter, search, output }: TreeSearch): Promise<void> {
  const budget = createWalkBudget();
  const depth = start.segments.length;
  const { matcher, signal } = search;
  const options = { budget, hidden: ctx.workspace.hidden, signal, matcher };
  for await (const step of walkFiles(start, options)) {
    const names = filter === undefined ? step.names : await filtered(matcher, filter, step, depth);
    for (const name of names) {
      if (signal.aborted || output.full()) return;
      const path = shownPath(step.directory.area, [...step.directory.segments, name]);
      // A file that vanished, is unreadable or may not be opened is no match; naming it would not help.
      const file = await openNamed(step.directory, name, path).catch((error: unknown) =>
        leftOut(error, path),
      );
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
  if (budget.tooDeep) output.note(TOO_DEEP);
}

async function searchNamed(
  location: FileLocation,
  spelled: string,
  search: FileSearch,
  output: Output,
): Promise<void> {
  const path = shownPath(location.directory.area, [...location.directory.segments, location.name]);
  const file = await openFile(location, spelled);
  try {
    const ending = await searchFile(file, path, search);
    if (ending === "binary") throw new ToolFailure("The file is binary and was not searched.");
    if (ending === "partly") output.note(`only the first 16 MB of ${path} were searched`);
  } finally {
    await file.handle.close();
  }
}

async function openStart(ctx: ToolContext, path: string): Promise<FileLocation | SearchStart> {
  try {
    return { directory: await openDirectory(ctx.workspace, path) };
  } catch (error) {
    if (!(error instanceof ToolFailure) || error.reason !== "not_directory") throw error;
    return openLocation(ctx.workspace, path);
  }
}

async function filtered(
  matcher: Matcher,
  filter: string,
  { directory, names }: WalkStep,
  depth: number,
): Promise<string[]> {
  const below = directory.segments.slice(depth);
  const hits = await matcher.paths(
    filter,
    names.map((name) => [...below, name].join("/")),
  );
  return hits.flatMap((index) => names[index] ?? []);
}

/** Makes a name without a slash match in every directory; a leading `!` negates the glob and is not part of the name. */
function anywhere(glob: string): string {
  if (glob.includes("/")) return glob;
  return glob.startsWith("!") && !glob.startsWith("!(") ? `!**/${glob.slice(1)}` : `**/${glob}`;
}

/** Parses the pattern. Escapes such as `\\p{Lu}` and `\\u{1F600}` need the flag `u`, which forbids other escapes. */
function expressionOf(pattern: string): Expression {
  const ignoreCase = pattern.startsWith("(?i)");
  const source = ignoreCase ? pattern.slice("(?i)".length) : pattern;
  return { source, flags: `${ignoreCase ? "i" : ""}${/\\[pPu]\{/.test(source) ? "u" : ""}` };
}

interface Output {
  /** Adds a line; false if there is no room for more. */
  emit(line: string): boolean;
  note(notice: string): void;
  full(): boolean;
  text(notice: string | undefined): string;
}

function createOutput(): Output {
  const lines: string[] = [];
  const notes: string[] = [];
  let room = MAX_MATCH_CHARS;
  return {
    emit(line) {
      room -= line.length + 1;
      if (room >= 0) lines.push(line);
      return room >= 0;
    },
    note: (notice) => void notes.push(notice),
    full: () => room < 0,
    text(notice) {
      const stopped =
        room < 0
          ? "stopped after 48,000 characters of matches; use a narrower pattern, path or glob"
          : undefined;
      const said = [stopped, notice, ...notes].filter((note) => note !== undefined);
      const body = lines.length === 0 ? ["no matches"] : lines;
      return [...body, ...said.slice(0, 10).map((note) => `[${note}]`)].join("\n");
    },
  };
}
