/** All rules in order of priority, and the next turn of a conversation by rule. Pure. */
import type { Conversation } from "../conversation.ts";
import { countMarkers, listFiles, luaPurpose, testFramework } from "./project.ts";
import * as rule from "./rule.ts";

const QUESTION = /\bask your parent\b[\s:,–-]*([^\n]+?(?:\?|(?=[.;\n]|$)))/i;
/** Matches "Write …" as an order, not as a word in a question. */
const ORDER = /(?:^|[.!?,;:\n]\s*|\b(?:and|then|please|also)\s+)(?:write|save|store|put)\b/i;
const BEFORE_TARGET =
  /\b(?:to|into|in|as|named|called|file)\s+(?:an?\s+|the\s+)?(?:new\s+)?(?:file\s+)?(?:named\s+)?[`"'“]?$/i;

const REMARKS = [
  [/\b(?:TODO|FIXME)\b/, { severity: "info", rule: "todo", message: "Something is left to do." }],
  [/\bconsole\.\w+\(/, { severity: "warning", rule: "console-log", message: "Writes to the console." }],
] as const;

/** Asks the parent the question in the request; the reply is the parent's answer. */
const askParent: rule.Rule = {
  matches: (text) => QUESTION.test(text),
  next(task) {
    const question = rule.shorten(QUESTION.exec(task.text)?.[1]?.trim() ?? task.text, 1_000);
    return rule.lookup(task, [{ name: "ask_parent", input: { question } }], (steps) =>
      steps[0]?.failed === false ? steps[0].output : `I got no answer${rule.failures(steps)}.`,
    );
  },
};

/** Reviews the files that a request names; the answer is JSON. */
const reviewFile: rule.Rule = {
  matches: (text) => /\breview\b/i.test(text) && rule.filesNamedIn(text).length > 0,
  next: (task) =>
    rule.lookup(task, rule.filesNamedIn(task.text).slice(0, 6).map(rule.readFile), (steps) => {
      const read = steps.filter((step) => !step.failed);
      const findings = read.flatMap((step) => findingsIn(rule.fileOf(step), step.output));
      const unread = steps.filter((step) => step.failed).map(rule.fileOf);
      const warned = findings.some(({ severity }) => severity === "warning");
      const review = {
        verdict: unread.length > 0 ? "incomplete" : warned ? "changes_requested" : "approved",
        summary: `${rule.counted(findings.length, "finding")} in ${rule.counted(read.length, "file")}.`,
        findings: findings.slice(0, 50),
        ...(unread.length > 0 && { unread, problem: rule.failures(steps).trim() }),
      };
      return JSON.stringify(review, null, 2);
    }),
};

const findingsIn = (file: string, text: string) =>
  text.split("\n").flatMap((content, index) => {
    const found = REMARKS.filter(([pattern]) => pattern.test(content));
    return found.map(([, remark]) => ({ file, line: index + 1, ...remark }));
  });

/** Writes a file that the request names: with a quoted text of the request, or with the result of another rule. */
const writeFile: rule.Rule = {
  matches: (text) => ORDER.test(text) && targetIn(text) !== undefined,
  next(task) {
    const target = targetIn(task.text) ?? "notes.md";
    const found = contentFor(task, target);
    if (typeof found !== "string") return found;
    const call = { name: "write_file", input: { file_path: target, content: found } };
    return rule.lookup(task, [call], (steps) => {
      if (steps[0]?.failed) return `${target} was not written${rule.failures(steps)}.`;
      return `I wrote ${target} (${rule.counted(Buffer.byteLength(found), "byte")}):\n${rule.shorten(found, 500)}`;
    });
  },
};

/** Returns the last file name that follows "to", "in", "as" and the like. */
const targetIn = (text: string): string | undefined =>
  rule
    .filesNamedIn(text)
    .findLast((name) => BEFORE_TARGET.test(text.slice(0, text.lastIndexOf(name)).replace(/\.\/$/, "")));

function contentFor(task: rule.Task, target: string): rule.Draft {
  const quotes = task.text.matchAll(/["“`]([^"”`]+)["”`]/g);
  const literal = Array.from(quotes, ([, quote]) => quote).find((quote) => quote !== target);
  if (literal !== undefined) return literal;
  const found = ruleFor(task.text.replace(target, " "), LOOKING).next(task);
  return typeof found === "string" ? `${found}\n` : found;
}

const unknown: rule.Rule = {
  matches: () => true,
  next: ({ text }) => `I cannot answer this by rule, I am no language model: “${rule.shorten(text, 300)}”`,
};

const LOOKING = [askParent, testFramework, luaPurpose, countMarkers, reviewFile, listFiles];
const RULES = [writeFile, ...LOOKING];

const ruleFor = (text: string, rules: readonly rule.Rule[] = RULES): rule.Rule =>
  rules.find((each) => each.matches(text)) ?? unknown;

/** Returns true if a specific rule answers this text. */
export const isKnown = (text: string): boolean => ruleFor(text) !== unknown;

/** Returns the next turn: the tool calls that the open requests still need, together; then an answer to each request. */
export function nextByRule({ requests, steps, offered, openDirectories }: Conversation): rule.Draft {
  const directories = openDirectories.length === 0 ? ["."] : openDirectories;
  const drafts = requests.map((text) => ruleFor(text).next({ text, steps, offered, directories }));
  const calls = drafts.flatMap((draft) => (typeof draft === "string" ? [] : draft));
  return calls.length > 0 ? calls : drafts.join("\n\n");
}
