/** Searches the workspace for the most telling words of a request and reports what stands there. Pure. */
import { complaints, counted, foundHits, foundPaths, globIn, grepIn, shorten } from "./lookup.ts";
import { answer, call, consult, type Rule, type Task } from "./rule.ts";

const VERBS =
  /\b(?:fetch|collect|research(?:es)?|find|search|look|gather|investigate|analy[sz]e|summari[sz]e|explain|describe|check|audit|inspect|explore|compare|where|which|what|who|how|why|read|identify|determine)\b/i;
const COMMON = new Set(
  (
    "about above after again also among because been before being below between both cannot could does doing done down each every from " +
    "further have having here into itself just know like list make many more most much must need only other over please project report same " +
    "should some such tell than that their them then there these they this those through under until very want were what when where which " +
    "while whom whose will with would your yours fetch collect research find search look gather investigate analyse analyze summarise " +
    "summarize summary explain describe check audit inspect explore compare read identify determine findings results result answer question " +
    "file files directory folder workspace data information topic researches write save used uses using work works"
  ).split(" "),
);
const MAX_WORDS = 3;
const MAX_HITS = 8;

/** Takes requests that ask for something to be found out. */
export const research: Rule = {
  name: "research",
  matches: (text) => VERBS.test(text) && tellingWords(text).length > 0,
  next(task) {
    const words = tellingWords(task.text);
    const calls =
      task.offered.has("grep") || task.steps.some((step) => step.name === "grep")
        ? grepIn(task.places, words.map(eitherCase).join("|"))
        : globIn(task.places, `**/*{${words.join(",")}}*`);
    const found = consult(task, calls);
    if (found.status === "pending") return call(`Searching for ${words.join(", ")}.`, found.calls);
    return answer(report(task, words, found.steps));
  },
};

/** The most telling words of a text: identifiers first, then long words, in the order of the text. */
export function tellingWords(text: string): string[] {
  const all = text.match(/[\p{L}\p{N}_][\p{L}\p{N}_-]*[\p{L}\p{N}_]/gu) ?? [];
  const words = [...new Set(all)].filter((word) => word.length >= 3 && !COMMON.has(word.toLowerCase()));
  const telling = words.filter((word) => word.length >= 4 || weight(word) >= 100);
  const best = [...telling].sort((a, b) => weight(b) - weight(a)).slice(0, MAX_WORDS);
  return telling.filter((word) => best.includes(word));
}

function weight(word: string): number {
  return (/[_\d-]|[a-z][A-Z]|^[A-Z]{2,}$/.test(word) ? 100 : 0) + word.length;
}

function eitherCase(word: string): string {
  const [first = "", ...rest] = [...word];
  const [upper, lower] = [first.toUpperCase(), first.toLowerCase()];
  return (upper === lower ? first : `[${upper}${lower}]`) + rest.join("");
}

function report(task: Task, words: readonly string[], steps: Parameters<typeof complaints>[0]): string {
  const subject = words.join(", ");
  if (steps.length === 0)
    return `I could not search for ${subject}: no tool that searches files may be used now.`;
  const trouble = complaints(steps);
  if (trouble !== "") return `I searched for ${subject}, but ${trouble}.`;
  const place = task.places.join(", ") === "." ? "the workspace" : task.places.join(", ");
  const paths = foundPaths(steps).map((path) => `- ${path}`);
  if (paths.length > 0) {
    return `${counted(paths.length, "file")} named after ${subject} in ${place}:\n${paths.slice(0, MAX_HITS).join("\n")}`;
  }
  const hits = foundHits(steps);
  if (hits.length === 0) return `I searched ${place} for ${subject} and found nothing.`;
  const files = new Set(hits.map((hit) => hit.path)).size;
  const lines = hits
    .slice(0, MAX_HITS)
    .map((hit) => `- ${hit.path}:${hit.line}: ${shorten(hit.text.trim(), 160)}`);
  return `I searched ${place} for ${subject}: ${counted(hits.length, "line")} in ${counted(files, "file")}.\n${lines.join("\n")}`;
}
