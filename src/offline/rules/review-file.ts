/** Reviews the files a request names and returns the findings as JSON text. Pure. */
import type { Step } from "../conversation.ts";
import { complaints, counted, readFile, shorten } from "./lookup.ts";
import { filesNamedIn } from "./paths.ts";
import { answer, call, consult, PARALLEL_CALLS, type Rule } from "./rule.ts";

/** One thing the review found. Lines count from 1. */
interface Finding {
  file: string;
  line: number;
  severity: "info" | "warning";
  rule: "long-line" | "todo" | "console-log";
  message: string;
}

const MAX_LINE_CHARS = 120;
const MAX_FINDINGS = 50;

/** Reads the named files and derives findings from their lines. */
export const reviewFile: Rule = {
  name: "review-file",
  matches: (text) => /\breview\b/i.test(text) && filesNamedIn(text).length > 0,
  next(task) {
    const files = filesNamedIn(task.text).slice(0, PARALLEL_CALLS);
    const read = consult(task, files.map(readFile));
    if (read.status === "pending") return call(`Reading ${files.join(", ")}.`, read.calls);
    return answer(JSON.stringify(review(files, read.steps), null, 2));
  },
};

function review(files: readonly string[], steps: readonly Step[]) {
  const readable = steps.filter((step) => !step.failed);
  const findings = readable.flatMap((step) => findingsIn(String(step.input.file_path), step.output));
  const warnings = findings.filter((finding) => finding.severity === "warning").length;
  const unread = files.filter((file) => !readable.some((step) => step.input.file_path === file));
  return {
    verdict: unread.length > 0 ? "incomplete" : warnings > 0 ? "changes_requested" : "approved",
    summary: `${counted(findings.length, "finding")} in ${counted(readable.length, "file")}.`,
    files: readable.map((step) => ({ file: step.input.file_path, lines: linesOf(step.output).length })),
    findings: findings.slice(0, MAX_FINDINGS),
    ...(unread.length > 0 ? { unread, problem: complaints(steps) || "`read_file` may not be used now" } : {}),
  };
}

/** The findings of one file, in the order of its lines. */
function findingsIn(file: string, text: string): Finding[] {
  return linesOf(text).flatMap((content, index) => {
    const at = { file, line: index + 1 };
    const length = [...content].length;
    const found: Finding[] = [];
    if (length > MAX_LINE_CHARS) {
      found.push({
        ...at,
        severity: "info",
        rule: "long-line",
        message: `The line has ${length} characters, more than ${MAX_LINE_CHARS}.`,
      });
    }
    if (/\b(?:TODO|FIXME)\b/.test(content)) {
      found.push({
        ...at,
        severity: "info",
        rule: "todo",
        message: `Left to do: ${shorten(content.trim(), 100)}`,
      });
    }
    if (/\bconsole\.(?:log|debug|error|warn|info)\(/.test(content)) {
      found.push({ ...at, severity: "warning", rule: "console-log", message: "Writes to the console." });
    }
    return found;
  });
}

function linesOf(text: string): string[] {
  const lines = text.split("\n");
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines;
}
