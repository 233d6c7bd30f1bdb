/**
 * Splits a markdown file into its front matter and its body. What the ecosystem writes is read as it is: a description with a
 * colon in it is no YAML, and yet means what it says.
 */
import { createRequire } from "node:module";
import type * as Yaml from "yaml";
import { messageOf } from "../../shared/errors.ts";

/** What is wrong, and in which line of the file, from 1. */
export interface LineProblem {
  line: number;
  message: string;
}

/** A file in two parts; `lineOf`: where a key of the front matter stands. */
export type FrontMatter =
  | { ok: true; fields: Record<string, unknown>; body: string; lineOf(key: string): number }
  | { ok: false; problem: LineProblem };

/** Brackets that may stand open in one front matter: a parser's time grows with the square of them. */
const MOST_BRACKETS = 1_000;
const FENCE = /^---[ \t]*$/;
const MOST_CHARS = 64 * 1024;
const PLAIN_FIELD = /^([A-Za-z][\w-]*):[ \t]+(?!["'[{|>&*!])(.*\S)[ \t]*$/;

/** The parser, loaded with the first definition that is read: a parent that names none does not pay for it. */
function yamlParser(): typeof Yaml {
  return createRequire(import.meta.url)("yaml");
}

/** Reads `text`. Aliases are refused: a few of them can spell gigabytes. */
export function readFrontMatter(text: string): FrontMatter {
  const lines = text.replace(/^\uFEFF/, "").split(/\r\n|\n|\r/);
  if (!FENCE.test(lines[0] ?? ""))
    return refused(1, "the file must begin with a line --- and its front matter");
  const end = lines.findIndex((line, at) => at > 0 && FENCE.test(line));
  if (end < 0) return refused(1, "the front matter has no closing line ---");
  const matter = lines.slice(1, end);
  if (matter.join("\n").length > MOST_CHARS)
    return refused(2, `the front matter is longer than ${MOST_CHARS} characters`);
  if ((matter.join("").match(/[[{]/g)?.length ?? 0) > MOST_BRACKETS)
    return refused(2, `the front matter has more than ${MOST_BRACKETS} brackets`);
  const strict = parsed(matter);
  const found = strict.ok ? strict : parsed(matter.map(quoted));
  // What is wrong is told of the file as it stands.
  if (!found.ok) return strict.ok ? found : strict;
  const lineOf = (key: string) => {
    const at = matter.findIndex((line) => line.startsWith(`${key}:`));
    return at < 0 ? 1 : at + 2;
  };
  return {
    ok: true,
    fields: found.fields,
    body: lines
      .slice(end + 1)
      .join("\n")
      .trim(),
    lineOf,
  };
}

type Parsed = { ok: true; fields: Record<string, unknown> } | { ok: false; problem: LineProblem };

function parsed(matter: readonly string[]): Parsed {
  const { LineCounter, parseDocument } = yamlParser();
  const lineCounter = new LineCounter();
  try {
    const document = parseDocument(matter.join("\n"), { lineCounter, stringKeys: true });
    const error = document.errors[0];
    if (error) {
      const { line } = lineCounter.linePos(error.pos[0]);
      return refused(
        line + 1,
        (error.message.split("\n")[0] ?? "").replace(/ at line \d+, column \d+:?$/, ""),
      );
    }
    const value: unknown = document.toJS({ maxAliasCount: 0 });
    if (value === null) return { ok: true, fields: {} };
    if (typeof value !== "object" || Array.isArray(value))
      return refused(2, "the front matter is no list of keys and values");
    return { ok: true, fields: { ...value } };
  } catch (error) {
    return refused(2, `the front matter cannot be read (${messageOf(error)})`);
  }
}

/** `key: words` with the words as one text, whatever stands in them. */
function quoted(line: string): string {
  const [, key, words] = PLAIN_FIELD.exec(line) ?? [];
  return key === undefined || words === undefined || !/: |:$| #/.test(words)
    ? line
    : `${key}: ${JSON.stringify(words)}`;
}

function refused(line: number, message: string): { ok: false; problem: LineProblem } {
  return { ok: false, problem: { line, message } };
}
