/**
 * Splits a bash command line into commands and words, and removes quotes. Pure, in one pass.
 *
 * 1. A line is plain only if the shell does nothing but run its words. Expansions, redirections, groups, comments and
 *    reserved words are not parsed here: a line with them is not plain.
 */

/** See the module's header. */
export interface CommandLine {
  /** Words of each command, joined by one blank. */
  commands: readonly string[];
  /** The same without variable assignments; each also with the bare name of its program, without a path. */
  programs: readonly string[];
  /** Programs with a file pattern among their arguments: the shell looks up the files. */
  globbed: readonly string[];
  isPlain: boolean;
}

/** A word of a command. `isGlob`: the shell replaces it by the matching files, if there are any. */
interface Word {
  text: string;
  isGlob: boolean;
}

/** Characters that begin an expansion anywhere outside single quotes. */
const EXPANDS = /[$`]/;
/** Operators outside quotes; also white space that separates words, but not in bash. */
const OPERATES = /[<>(){}]|[^\S \t\n]/;
/** Characters of file patterns, outside quotes. */
const GLOBS = /[*?[]/;
/** At the beginning of a word: a comment, a home directory. */
const BEGINS_OTHERWISE = /[#~]/;
const SEPARATES = /[;&|\n]/;
/** Characters that a backslash escapes within double quotes. Before another character the backslash is literal. */
const ESCAPED_IN_QUOTES = /[$`"\\\n]/;
const ASSIGNS = /^\w+\+?=/;
/** Reserved words: the shell goes on to another command, or begins a construct that ends elsewhere. */
const RESERVED: ReadonlySet<string> = new Set(
  "! case coproc do done elif else esac fi for function if in select then time until while".split(" "),
);

/** Parses `line`; the caller limits its length. */
export function readCommandLine(line: string): CommandLine {
  const { commands, isPlain } = wordsOf(line);
  const calls = commands
    .map(withoutAssignments)
    .flatMap(([program, ...others]) =>
      program ? [{ program, names: namesOfProgram(program), others }] : [],
    );
  return {
    commands: commands.map(textOf),
    programs: calls.flatMap(({ names, others }) => names.map((name) => textOf([name, ...others]))),
    globbed: calls
      .filter(({ others }) => others.some(({ isGlob }) => isGlob))
      .flatMap(({ names }) => names.map(({ text }) => text)),
    isPlain: isPlain && calls.every(({ program }) => isProgram(program)),
  };
}

function withoutAssignments(words: readonly Word[]): readonly Word[] {
  const first = words.findIndex(({ text }) => !ASSIGNS.test(text));
  return first < 0 ? [] : words.slice(first);
}

/** Returns the program as written, and its name without a path. */
function namesOfProgram(program: Word): Word[] {
  return [program, { ...program, text: program.text.slice(program.text.lastIndexOf("/") + 1) }];
}

function isProgram({ text, isGlob }: Word): boolean {
  return !isGlob && !RESERVED.has(text) && !/\s/.test(text);
}

function textOf(words: readonly Word[]): string {
  return words.map(({ text }) => text).join(" ");
}

function wordsOf(line: string): { commands: Word[][]; isPlain: boolean } {
  const commands: Word[][] = [[]];
  // Undefined between two words.
  let word: string | undefined;
  let [quote, isPlain, isGlob] = ["", true, false];
  const endWord = () => {
    if (word !== undefined) commands.at(-1)?.push({ text: word, isGlob });
    word = undefined;
    isGlob = false;
  };
  for (let at = 0; at < line.length; at += 1) {
    const char = line.charAt(at);
    if (char === "\\" && quote !== "'") {
      const escaped = line.charAt(++at);
      // The end of the line, or a line that continues in the next.
      if (escaped === "" || escaped === "\n") isPlain = false;
      const isItself = quote === '"' && !ESCAPED_IN_QUOTES.test(escaped);
      word = `${word ?? ""}${isItself ? "\\" : ""}${escaped}`;
      continue;
    }
    if (quote !== "'" && EXPANDS.test(char)) isPlain = false;
    if (char === quote) quote = "";
    else if (quote !== "") word = (word ?? "") + char;
    else if (char === "'" || char === '"') {
      quote = char;
      word ??= "";
    } else if (SEPARATES.test(char)) {
      endWord();
      commands.push([]);
    } else if (char === " " || char === "\t") endWord();
    else {
      if (GLOBS.test(char)) isGlob = true;
      if (OPERATES.test(char) || (word === undefined && BEGINS_OTHERWISE.test(char))) isPlain = false;
      word = (word ?? "") + char;
    }
  }
  endWord();
  return { commands: commands.filter((words) => words.length > 0), isPlain: isPlain && quote === "" };
}
