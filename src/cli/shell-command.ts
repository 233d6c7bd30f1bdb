/** The shell words that call this program from the user's directory, so that printed commands can be pasted there. */
import { existsSync, realpathSync } from "node:fs";
import { delimiter, dirname, isAbsolute, join, relative } from "node:path";

const NAME = "subagent-queue";
/** Matches the name before a verb; not inside a path, in the usage line, or after `npx`. */
const CALL = new RegExp(`(?<!Usage: |npx |[\\w/-])${NAME} (?=[a-z])`, "g");
/** Matches a word that a shell reads without quotes. */
const PLAIN_WORD = /^[\w@%+=:,./-]+$/;

/** The circumstances of a call. */
export interface Calling {
  /** Path of the running script: `process.argv[1]`. */
  script: string;
  cwd: string;
  /** The PATH of a shell; undefined: none. */
  searchPath: string | undefined;
}

/**
 * Returns the words that call this same program from `cwd`: `npx subagent-queue` if the project has it installed,
 * `subagent-queue` if the PATH has it, else `node` with the path of the script. Never `npx` for a program that is not
 * installed, because npx would download a package of that name from a registry.
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
  // The script's real path, because npx deletes its temporary link one day.
  const itself = realPathOf(script) ?? script;
  const below = relative(realPathOf(cwd) ?? cwd, itself);
  return `node ${word(below.startsWith("..") || isAbsolute(below) ? itself : below)}`;
}

/**
 * Replaces the program's name by `command` in every call that `text` shows: `subagent-queue resume` becomes
 * `command resume`. The usage line keeps the name. `text` must be the program's own text, not user input.
 */
export function pasteable(text: string, command: string): string {
  return text.replace(CALL, () => `${command} `);
}

/** Quotes a text as one shell word, if needed. */
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
