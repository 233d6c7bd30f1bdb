/** How a person calls this program where they stand, so that every command that is printed can be pasted there. */
import { existsSync, realpathSync } from "node:fs";
import { delimiter, dirname, isAbsolute, join, relative } from "node:path";

const NAME = "subagent-queue";
/** The name with a verb behind it; not as a part of a path, not in the line of usage, and not where `npx` stands already. */
const CALL = new RegExp(`(?<!Usage: |npx |[\\w/-])${NAME} (?=[a-z])`, "g");
/** What a shell takes as it stands. */
const PLAIN_WORD = /^[\w@%+=:,./-]+$/;

/** Where a command was called. */
export interface Calling {
  /** The script that runs, as `process.argv[1]` has it. */
  script: string;
  cwd: string;
  /** The PATH of a shell; undefined: none. */
  searchPath: string | undefined;
}

/**
 * The words that call this very program from `cwd`: `npx subagent-queue` where a project has it installed,
 * `subagent-queue` where the PATH has it, else `node` with the path of the script. Never `npx` for a program that is not
 * installed: npx would ask a registry for whatever has that name there.
 */
export function commandFor({ script, cwd, searchPath }: Calling): string {
  const isThis = (path: string) => realPathOf(path) === realPathOf(script);
  const project = ancestorsOf(cwd).find(
    (directory) => existsSync(join(directory, "package.json")) || existsSync(join(directory, "node_modules")),
  );
  if (project !== undefined && isThis(join(project, "node_modules", ".bin", NAME))) return `npx ${NAME}`;
  const onPath = (searchPath ?? "")
    .split(delimiter)
    .filter((directory) => isAbsolute(directory) && !directory.includes("node_modules"))
    .map((directory) => join(directory, NAME))
    .find((path) => existsSync(path));
  if (onPath !== undefined && isThis(onPath)) return NAME;
  // The script itself: what npx makes to call it by is gone some day.
  const itself = realPathOf(script) ?? script;
  const below = relative(realPathOf(cwd) ?? cwd, itself);
  return `node ${word(below.startsWith("..") || isAbsolute(below) ? itself : below)}`;
}

/**
 * `text`, which is this program's own, with every call of it as it can be pasted: `subagent-queue resume` becomes
 * `command resume`. The line of usage keeps the program's name.
 */
export function pasteable(text: string, command: string): string {
  return text.replace(CALL, () => `${command} `);
}

/** A text as one word of a shell. */
function word(text: string): string {
  return PLAIN_WORD.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function ancestorsOf(directory: string): string[] {
  const above = dirname(directory);
  return above === directory ? [directory] : [directory, ...ancestorsOf(above)];
}

function realPathOf(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}
