/**
 * The commands of a line, as bash reads it: split where it splits them, quotes taken off. Pure, and one pass.
 *
 * 1. A line is plain only if its words are all that happens. What the shell replaces, redirects, groups, leaves out or takes for a
 *    word of its own grammar is not read here: such a line is not plain.
 */

/** See the module's header. */
export interface CommandLine {
  /** The words of each command, one blank between two. */
  commands: readonly string[];
  /** The same without the variables that are set for the program; and by the program's name alone, no path before it. */
  programs: readonly string[];
  /** Programs that are given names of files which the shell looks up. */
  globbed: readonly string[];
  isPlain: boolean;
}

/** A word of a command. `isGlob`: the shell puts the files in its place that it fits, if there are any. */
interface Word {
  text: string;
  isGlob: boolean;
}

/** Replaced wherever it stands outside of single quotes. */
const EXPANDS = /[$`]/;
/** More than a part of a word, outside of quotes; also what separates words elsewhere than in bash. */
const OPERATES = /[<>(){}]|[^\S \t\n]/;
/** Stands for names of files, outside of quotes. */
const GLOBS = /[*?[]/;
/** At the beginning of a word: a comment, a home directory. */
const BEGINS_OTHERWISE = /[#~]/;
const SEPARATES = /[;&|\n]/;
/** What a backslash takes its meaning from within double quotes. Before another character it stands for itself. */
const ESCAPED_IN_QUOTES = /[$`"\\\n]/;
const ASSIGNS = /^\w+\+?=/;
/** Words after which the shell goes on to another command, or begins what ends elsewhere. */
const RESERVED: ReadonlySet<string> = new Set(
  "! case coproc do done elif else esac fi for function if in select then time until while".split(" "),
);

/** Reads `line`, which is bounded by who calls. */
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

/** As it is called, and by its name alone. */
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
      // Nothing, or a line that goes on in the next.
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
