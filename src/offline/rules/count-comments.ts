/** Answers how many comments, lines or occurrences of something there are, by searching for it. Pure. */
import { complaints, counted, foundHits, grepIn, shorten, wasCut } from "./lookup.ts";
import { answer, call, consult, type Rule } from "./rule.ts";

const MARKERS = /\b(?:TODO|FIXME|HACK|XXX)\b/gi;
const COMMENT_OPENERS = "(//|/\\*|^\\s*\\*|#|--|<!--)";
const MAX_FILES = 20;

/** Searches for the counted words, then counts lines and files. */
export const countComments: Rule = {
  name: "count-comments",
  matches: (text) => /\bhow many\b|\bcount\b|\bnumber of\b/i.test(text) && wordsToCount(text).length > 0,
  next(task) {
    const words = wordsToCount(task.text);
    const found = consult(task, grepIn(task.places, patternFor(task.text, words)));
    if (found.status === "pending") return call(`Searching for ${words.join(", ")}.`, found.calls);
    if (found.steps.length === 0)
      return answer(`I could not count ${words.join(", ")}: \`grep\` may not be used now.`);
    const trouble = complaints(found.steps);
    const hits = foundHits(found.steps);
    const files = new Map<string, number>();
    for (const { path } of hits) files.set(path, (files.get(path) ?? 0) + 1);
    const what = `${words.join(" / ")} ${/\bcomments?\b/i.test(task.text) ? "comment" : "line"}`;
    const atLeast = wasCut(found.steps) ? "at least " : "";
    const head = `There ${hits.length === 1 ? "is" : "are"} ${atLeast}${counted(hits.length, what)} in ${counted(files.size, "file")}`;
    return answer(
      `${head}${hits.length === 0 ? "." : `:\n${listOf(files)}`}${trouble === "" ? "" : `\n(${trouble})`}`,
    );
  },
};

/** The words that a question wants counted: markers such as TODO, a quoted text, or the noun before "comments". */
export function wordsToCount(text: string): string[] {
  const markers = [...text.matchAll(MARKERS)].map(([marker]) => marker.toUpperCase());
  if (markers.length > 0) return [...new Set(markers)];
  const quoted = /[`"“]([^`"”\n]{1,80})[`"”]/.exec(text)?.[1];
  const noun =
    /\b(?:how many|count|number of)\s+(?:the\s+|all\s+)?([\w.-]{2,40})\s+(?:comments?|lines?|occurrences|mentions)\b/i.exec(
      text,
    )?.[1];
  return [quoted ?? noun].filter((word) => word !== undefined);
}

function patternFor(text: string, words: readonly string[]): string {
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const bounded = escaped.map((word, index) => (/^\w+$/.test(words[index] ?? "") ? `\\b${word}\\b` : word));
  const any = bounded.length === 1 ? bounded.join("") : `(${bounded.join("|")})`;
  return /\bcomments?\b/i.test(text) ? `${COMMENT_OPENERS}.*${any}` : any;
}

function listOf(files: ReadonlyMap<string, number>): string {
  const sorted = [...files].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  const shown = sorted.slice(0, MAX_FILES).map(([path, count]) => `- ${shorten(path, 200)}: ${count}`);
  const rest = sorted.length - shown.length;
  return [...shown, ...(rest > 0 ? [`- and ${counted(rest, "more file")}`] : [])].join("\n");
}
