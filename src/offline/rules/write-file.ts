/** Writes what a request gives, or what another rule finds out, to the file it names. Pure. */
import { complaints, shorten, stepsOf } from "./lookup.ts";
import { filesNamedIn } from "./paths.ts";
import { answer, call, consult, type Rule, type Task } from "./rule.ts";

const TARGET =
  /\b(?:to|into|in|as|at|named|called|file)\s+(?:an?\s+|the\s+)?(?:new\s+)?(?:files?\s+)?(?:named\s+|called\s+)?[`"'“]?$/i;

/** "Write …" as an order, not as a word in a question. */
const ORDER =
  /(?:^|[.!?,;:\n]\s*|\b(?:and|then|please|also|finally)\s+)(?:write|save|store|put|record|export)\b/i;

/** `others` finds out what to write when the request does not say it in so many words. */
export function writeFile(others: (task: Task) => ReturnType<Rule["next"]>): Rule {
  return {
    name: "write-file",
    matches: (text) => ORDER.test(text) && targetIn(text) !== undefined,
    next(task) {
      const target = targetIn(task.text) ?? "notes.md";
      if (!task.offered.has("write_file") && stepsOf(task.steps, "write_file").length === 0) {
        return answer(`I could not write ${target}: \`write_file\` may not be used now.`);
      }
      const content = contentFor(task, target, others);
      if (content.kind === "calls") return content;
      const written = consult(task, [
        { name: "write_file", input: { file_path: target, content: content.text } },
      ]);
      if (written.status === "pending") return call(`Writing ${target}.`, written.calls);
      const trouble = complaints(written.steps);
      if (trouble !== "") return answer(`${target} was not written: ${trouble}`);
      const size = Buffer.byteLength(content.text);
      return answer(`I wrote ${target} (${size} bytes):\n${shorten(content.text, 500)}`);
    },
  };
}

/** The file a request wants written: the last file name that follows "to", "in", "as" and the like. */
export function targetIn(text: string): string | undefined {
  return filesNamedIn(text).findLast((name) => {
    const at = text.lastIndexOf(name);
    return TARGET.test(text.slice(0, at).replace(/\.\/$/, ""));
  });
}

/** The text that a request gives literally: a fenced block, else a quoted text that is not the file's name. */
export function literalIn(text: string, target: string): string | undefined {
  const fenced = /```[^\n]*\n([\s\S]*?)```/.exec(text)?.[1];
  if (fenced !== undefined) return fenced;
  const quotes = [...text.matchAll(/"([^"]+)"|“([^”]+)”|`([^`]+)`|(?<=\s)'([^'\n]+)'(?=\W|$)/g)];
  return quotes
    .map((match) => match.slice(1).find((group) => group !== undefined))
    .find((quote) => quote !== target);
}

function contentFor(task: Task, target: string, others: (task: Task) => ReturnType<Rule["next"]>) {
  const literal = literalIn(task.text, target);
  if (literal !== undefined) return answer(literal);
  const found = others({
    ...task,
    text: task.text.replace(target, " "),
    steps: task.steps.filter(({ name }) => name !== "write_file"),
  });
  return found.kind === "calls" ? found : answer(`${found.text}\n`);
}
