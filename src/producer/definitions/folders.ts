/**
 * The agent definitions of some folders, in addition to those of the package. A read checks for changed files, at most once a
 * second, and reads those again. An invalid file becomes a problem with its line, and does not affect the other files.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import type {
  DefinitionProblem,
  DefinitionSource,
  Definitions,
  FoundDefinition,
} from "../../shared/protocol/definition.ts";
import { clip, quoted } from "../../shared/protocol/text.ts";
import { readDefinition } from "./definition.ts";
import { SHIPPED } from "./shipped.ts";

const CHECKED_EVERY_MS = 1_000;
const MOST_FILES = 256;
const MOST_BYTES = 320 * 1024;
const DEEPEST = 3;
/** Limit of one check for all folders together: the check is synchronous and blocks the event loop. */
const MOST_OF_ALL: Cost = { bytes: 16 * 1024 * 1024, tokens: 100_000 };

/** The cost of reading a file: its size, and the tokens of its front matter. */
interface Cost {
  bytes: number;
  tokens: number;
}

type Loaded = { file: string; mark: string; cost: Cost } & (
  | { definition: FoundDefinition }
  | { problem: DefinitionProblem }
);

/** Opens the definitions of `folders`; if two have the same name, the one of the earlier folder counts. */
export function openDefinitions(
  folders: readonly string[],
  clock: Pick<Clock, "monotonicMs">,
): DefinitionSource {
  let loaded = new Map<string, Loaded>();
  let now: Definitions | undefined;
  let checkedAtMs = Number.NEGATIVE_INFINITY;
  const list = () => {
    if (folders.length > 0 && clock.monotonicMs() - checkedAtMs >= CHECKED_EVERY_MS) {
      checkedAtMs = clock.monotonicMs();
      const problems: DefinitionProblem[] = [];
      const files = folders.flatMap((folder) => filesUnder(folder, problems));
      loaded = new Map(loadAll(files, loaded).map((each) => [each.file, each]));
      now = combined(shippedDefinitions(), [...loaded.values()], problems);
    }
    now ??= combined(shippedDefinitions(), [], []);
    return now;
  };
  return {
    list,
    find(name) {
      const { definitions, problems } = list();
      const found = definitions.find((definition) => definition.name === name);
      if (found) return found;
      const broken = problems.find(({ file }) => stemOf(file) === name);
      throw broken ? unusable(name, broken) : unknown(name, definitions);
    },
  };
}

let shipped: readonly FoundDefinition[] | undefined;

function shippedDefinitions(): readonly FoundDefinition[] {
  shipped ??= SHIPPED.flatMap((text) => {
    const read = readDefinition(text, "");
    return read.ok ? [read.definition] : [];
  });
  return shipped;
}

function filesUnder(folder: string, problems: DefinitionProblem[], depth = 1): string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
    const files = entries.flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return depth < DEEPEST ? filesUnder(path, problems, depth + 1) : [];
      return entry.name.endsWith(".md") && entry.name !== "README.md" ? [path] : [];
    });
    if (files.length > MOST_FILES)
      problems.push({ file: folder, line: 1, message: `only the first ${MOST_FILES} files are read` });
    return files.slice(0, MOST_FILES);
  } catch (error) {
    problems.push({ file: folder, line: 1, message: `the folder cannot be read (${messageOf(error)})` });
    return [];
  }
}

/** Loads the files in order; refuses the first file that exceeds the limit and all files after it. */
function loadAll(files: readonly string[], before: ReadonlyMap<string, Loaded>): Loaded[] {
  const room = { ...MOST_OF_ALL };
  let isFull = false;
  return files.map((file) => {
    const found = isFull ? undefined : load(file, before.get(file));
    isFull ||= !found || found.cost.bytes > room.bytes || found.cost.tokens > room.tokens;
    if (!found || isFull)
      return refused(file, "is not read: the files before it are as much as is read of all");
    room.bytes -= found.cost.bytes;
    room.tokens -= found.cost.tokens;
    return found;
  });
}

/** Loads a file; returns `before` if the file has not changed. */
function load(file: string, before: Loaded | undefined): Loaded {
  try {
    const { mtimeMs, size, ino, isFile } = statOf(file);
    const mark = `${mtimeMs} ${size} ${ino}`;
    if (before?.mark === mark) return before;
    if (!isFile) return refused(file, "is no regular file", { mark });
    if (size > MOST_BYTES) return refused(file, `is larger than ${MOST_BYTES / 1024} KB`, { mark });
    const read = readDefinition(readFileSync(file, "utf8"), stemOf(file));
    const cost = { bytes: size, tokens: read.tokens };
    if (!read.ok) return refused(file, read.problem.message, { mark, cost, line: read.problem.line });
    return { file, mark, cost, definition: { ...read.definition, file } };
  } catch (error) {
    return refused(file, messageOf(error));
  }
}

/** Returns a file as a problem; without a mark the next check reads the file again. */
function refused(
  file: string,
  message: string,
  { line = 1, mark = "", cost = { bytes: 0, tokens: 0 } } = {},
): Loaded {
  return { file, mark, cost, problem: { file, line, message } };
}

function statOf(file: string) {
  const stat = statSync(file);
  return { mtimeMs: stat.mtimeMs, size: stat.size, ino: stat.ino, isFile: stat.isFile() };
}

function combined(
  shipped: readonly FoundDefinition[],
  loaded: readonly Loaded[],
  problems: DefinitionProblem[],
): Definitions {
  const byName = new Map<string, FoundDefinition>();
  for (const each of loaded) {
    if ("problem" in each) problems.push(each.problem);
    else {
      const { definition, file } = each;
      const first = byName.get(definition.name);
      if (first)
        problems.push({ file, line: 2, message: `${definition.name} stands in ${first.file} already` });
      else byName.set(definition.name, definition);
    }
  }
  for (const definition of shipped) if (!byName.has(definition.name)) byName.set(definition.name, definition);
  return { definitions: [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1)), problems };
}

function stemOf(file: string): string {
  return basename(file).replace(/\.md$/, "");
}

function unknown(name: string, definitions: readonly FoundDefinition[]): SubagentError {
  const names = definitions.map((definition) => definition.name).join(", ");
  return new SubagentError(
    "unknown_definition",
    `There is no agent definition ${quoted(name)}: use one of ${names}.`,
    { agent: clip(name, 70) },
  );
}

function unusable(name: string, { file, line, message }: DefinitionProblem): SubagentError {
  return new SubagentError(
    "unknown_definition",
    `The agent definition ${name} cannot be used: ${file}:${line}: ${message}.`,
    { agent: name, file, line },
  );
}
