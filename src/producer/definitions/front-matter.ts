/**
 * Splits a markdown file into its front matter and its body. Accepts the common form of agent files that is no valid YAML: a
 * description with an unquoted colon is read as text.
 */
import { createRequire } from "node:module";
import type * as Yaml from "yaml";
import { messageOf } from "../../shared/errors.ts";

/** A problem and its line in the file, from 1. */
export interface LineProblem {
  line: number;
  message: string;
}

/** A file in two parts. `lineOf` returns the line of a key of the front matter; `tokens`: number of parsed tokens. */
export type FrontMatter = { tokens: number } & (
  | { ok: true; fields: Record<string, unknown>; body: string; lineOf(key: string): number }
  | { ok: false; problem: LineProblem }
);

/**
 * Maximum tokens of one front matter; a line `key: value` has 7. Tokens bound the parser's time, characters do not: the time
 * grows with the square of the nesting and of the lines in brackets. A text of any length is one token.
 */
const MOST_TOKENS = 4_000;
const MOST_OPEN_BRACKETS = 64;
/** Maximum column of a list mark: in a line of marks, each mark is one level of nesting and two columns wide. */
const LAST_MARK_COLUMN = 128;
const FENCE = /^---[ \t]*$/;
const MOST_CHARS = 64 * 1024;
const PLAIN_FIELD = /^([A-Za-z][\w-]*):[ \t]+(?=[^\s"'[{|>&*!])(.*)$/;

type YamlParser = Pick<typeof Yaml, "Lexer" | "LineCounter" | "parseDocument">;
let provided: YamlParser | undefined;

/** Gives definitions their parser in a program made by a bundler, which does not follow the `require` of the first definition. */
export function provideYaml(parser: YamlParser): void {
  provided = parser;
}

/** Returns the parser. It is loaded at the first definition, so a parent without definitions does not pay for it. */
function yamlParser(): YamlParser {
  return provided ?? createRequire(import.meta.url)("yaml");
}

/** Reads `text`. Aliases are refused: a few of them can expand to gigabytes. */
export function readFrontMatter(text: string): FrontMatter {
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\n|\r/);
  const unparsed = (line: number, message: string) => ({ ...refused(line, message), tokens: 0 });
  if (!FENCE.test(lines[0] ?? ""))
    return unparsed(1, "the file must begin with a line --- and its front matter");
  const end = lines.findIndex((line, at) => at > 0 && FENCE.test(line));
  if (end < 0) return unparsed(1, "the front matter has no closing line ---");
  const matter = lines.slice(1, end);
  if (matter.join("\n").length > MOST_CHARS)
    return unparsed(2, `the front matter is longer than ${MOST_CHARS} characters`);
  const strict = parsed(matter);
  const found = strict.ok ? strict : parsed(matter.map(quoted));
  const tokens = strict === found ? strict.tokens : strict.tokens + found.tokens;
  // The problem reported is that of the unchanged file.
  if (!found.ok) return { ok: false, problem: (strict.ok ? found : strict).problem, tokens };
  const lineOf = (key: string) => {
    const at = matter.findIndex((line) => line.startsWith(`${key}:`));
    return at < 0 ? 1 : at + 2;
  };
  return {
    ok: true,
    tokens,
    fields: found.fields,
    body: lines
      .slice(end + 1)
      .join("\n")
      .trim(),
    lineOf,
  };
}

type Parsed = { ok: true; fields: Record<string, unknown> } | { ok: false; problem: LineProblem };

/** Counts tokens in time linear in the length of the text, and stops when they are too many or nested too deep to parse. */
function sizeOf(matter: string): { ok: true; tokens: number } | { ok: false; problem: string } {
  const { Lexer } = yamlParser();
  let tokens = 0;
  let openBrackets = 0;
  let column = 0;
  for (const token of new Lexer().lex(matter)) {
    tokens += 1;
    if (tokens > MOST_TOKENS)
      return { ok: false, problem: `has more than ${MOST_TOKENS} keys, values and marks` };
    if (token === "[" || token === "{") openBrackets += 1;
    else if (token === "]" || token === "}") openBrackets = Math.max(0, openBrackets - 1);
    const isMark = openBrackets === 0 && (token === "-" || token === "?");
    if (openBrackets > MOST_OPEN_BRACKETS || (isMark && column > LAST_MARK_COLUMN))
      return { ok: false, problem: "nests too deep" };
    const lineEnd = token.lastIndexOf("\n");
    column = lineEnd < 0 ? column + token.length : token.length - lineEnd - 1;
  }
  return { ok: true, tokens };
}

function parsed(matter: readonly string[]): Parsed & { tokens: number } {
  const size = sizeOf(matter.join("\n"));
  if (!size.ok) return { ...refused(2, `the front matter ${size.problem}`), tokens: 0 };
  const { stackTraceLimit } = Error;
  // The parser may create an error for each token, and recording a stack costs more than the token.
  Error.stackTraceLimit = 0;
  try {
    return { ...parsedYaml(matter), tokens: size.tokens };
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

function parsedYaml(matter: readonly string[]): Parsed {
  const { LineCounter, parseDocument } = yamlParser();
  const lineCounter = new LineCounter();
  const at = (offset: number, message: string) => refused(lineCounter.linePos(offset).line + 1, message);
  try {
    // A "pretty" error copies its line, which may be the whole text.
    const options = { lineCounter, stringKeys: true, prettyErrors: false };
    const document = parseDocument(matter.join("\n"), options);
    const error = document.errors[0];
    if (error) return at(error.pos[0], error.message.split("\n")[0] ?? "");
    const value: unknown = document.toJS({ maxAliasCount: 0 });
    if (value === null) return { ok: true, fields: {} };
    if (typeof value !== "object" || Array.isArray(value))
      return refused(2, "the front matter is no list of keys and values");
    return { ok: true, fields: { ...value } };
  } catch (error) {
    return refused(2, `the front matter cannot be read (${messageOf(error)})`);
  }
}

/** Quotes the value of a line `key: words` if it has `: `, ` #` or a final `:`; returns every other line unchanged. */
function quoted(line: string): string {
  const [, key, rest] = PLAIN_FIELD.exec(line) ?? [];
  const words = rest?.trimEnd();
  return key === undefined || words === undefined || !/: |:$| #/.test(words)
    ? line
    : `${key}: ${JSON.stringify(words)}`;
}

function refused(line: number, message: string): { ok: false; problem: LineProblem } {
  return { ok: false, problem: { line, message } };
}
