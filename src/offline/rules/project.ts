/** Rules for questions about the files of a project. Pure. */
import * as rule from "./rule.ts";

/** Manifest pattern, framework pattern (its group is the version), framework name. */
const FRAMEWORKS: readonly (readonly [RegExp, RegExp, string])[] = [
  ...["vitest", "jest", "mocha", "ava", "tap"].map(
    (name) => [/package\.json$/, new RegExp(`"${name}"\\s*:\\s*"([^"]+)"`), name] as const,
  ),
  [/package\.json$/, /\bnode\b[^"&|;]*\s--test\b/, "node:test"],
  [/\.(?:toml|txt)$/, /\bpytest\b["'\s]*([<>=~!^]{0,2}\s*\d[\w.]*)?/, "pytest"],
  [/go\.mod$/, /^module\s/m, "go test (built in)"],
];

/** Returns the frameworks that a manifest names, each with its version if it has one. */
export function frameworksIn(file: string, text: string): string[] {
  return FRAMEWORKS.filter(([manifest]) => manifest.test(file)).flatMap(([, pattern, name]) => {
    const found = pattern.exec(text);
    return found ? [found[1] ? `${name} ${found[1].trim()}` : name] : [];
  });
}

/** Names the testing framework, from the manifests nearest to the root. */
export const testFramework: rule.Rule = {
  matches: (text) => /\btest(?:ing)?[- ](?:framework|runner|library)s?\b/i.test(text),
  next: (task) =>
    readFound(task, "**/{package.json,pyproject.toml,requirements.txt,go.mod}", 6, (files, reads) => {
      const named = reads.flatMap((step) =>
        frameworksIn(rule.fileOf(step), step.output).map((name) => ({ name, file: rule.fileOf(step) })),
      );
      const [main, ...others] = named;
      if (!main)
        return `I found no testing framework in ${files.join(", ") || "any manifest: there is none"}.`;
      const also = others.map(({ name, file }) => `${name} (${file})`).join(", ");
      return `This project uses ${main.name} as its testing framework: ${main.file} says so.${also && ` Also named: ${also}.`}`;
    }),
};

/** Lists the Lua scripts, each with the first sentence of its head comment. */
export const luaPurpose: rule.Rule = {
  matches: (text) => /\blua\b/i.test(text) && /\bscripts?\b|\bfiles?\b/i.test(text),
  next: (task) =>
    readFound(task, "**/*.lua", 60, (files, reads) => {
      const { within, nameOf } = rule.fileNames(task);
      const lines = reads.map((step) => `- ${nameOf(rule.fileOf(step))}: ${purposeOf(step.output)}`);
      return rule.listed(`${rule.counted(files.length, "Lua script")}${within}, ${reads.length} read`, lines);
    }),
};

/** Returns the first sentence of the head comment of a Lua script. */
export function purposeOf(script: string): string {
  const head = /^(?:\s*--[^\n]*\n?)+/.exec(script)?.[0] ?? "";
  const marked = head.replace(/^\s*-{2,}/gm, "").replace(/\b(?:KEYS|ARGV)\b[\s\S]*/, "");
  const words = marked.replace(/\s+/g, " ").trim();
  return rule.shorten(/^.*?[.!?](?=\s|$)/.exec(words)?.[0] ?? words, 240) || "no comment at its head";
}

/** Searches for markers such as TODO; counts lines and files. */
export const countMarkers: rule.Rule = {
  matches: (text) => /\bhow many\b|\bcount\b/i.test(text) && markersIn(text).length > 0,
  next(task) {
    const markers = markersIn(task.text);
    const pattern = `(//|/\\*|^\\s*\\*|#|--|<!--).*\\b(${markers.join("|")})\\b`;
    return rule.lookup(task, rule.searchIn(task, "grep", pattern), (steps) => {
      const paths = rule.foundLines(steps).flatMap((line) => /^(.+?):\d+:/.exec(line)?.[1] ?? []);
      const files = new Map<string, number>();
      for (const path of paths) files.set(path, (files.get(path) ?? 0) + 1);
      const what = rule.counted(paths.length, `${markers.join(" / ")} comment`);
      const head = `There ${paths.length === 1 ? "is" : "are"} ${what} in ${rule.counted(files.size, "file")}`;
      const { within, nameOf } = rule.fileNames(task);
      const lines = [...files].map(([path, count]) => `- ${nameOf(path)}: ${count}`);
      return rule.listed(`${head}${within}${rule.failures(steps)}`, lines);
    });
  },
};

const markersIn = (text: string): string[] => [
  ...new Set((text.match(/\b(?:TODO|FIXME|HACK)\b/gi) ?? []).map((marker) => marker.toUpperCase())),
];

/** Lists all files, or those with the extension in the request. */
export const listFiles: rule.Rule = {
  matches: (text) => /\b(?:list|show)\b[^?!\n]{0,60}\bfiles\b|\b(?:what|which) files\b/i.test(text),
  next(task) {
    const extension = /(?:^|\s)[`"']?\*?\.([a-z][a-z0-9]{0,7})\b[`"']?\s+files\b/i.exec(task.text)?.[1];
    const pattern = extension === undefined ? "**/*" : `**/*.${extension}`;
    return rule.lookup(task, rule.searchIn(task, "glob", pattern), (steps) => {
      const lines = rule.foundLines(steps).map((path) => `- ${path}`);
      return rule.listed(`${rule.counted(lines.length, "file")}${rule.failures(steps)}`, lines);
    });
  },
};

type Report = (files: string[], reads: rule.Task["steps"]) => string;

/** Globs, reads the `most` files nearest to the root, and answers with the text of `report` about them. */
function readFound(task: rule.Task, pattern: string, most: number, report: Report): rule.Draft {
  return rule.lookup(task, rule.searchIn(task, "glob", pattern), (globs) => {
    const depth = (path: string) => path.split("/").length;
    const files = rule.foundLines(globs).sort((a, b) => depth(a) - depth(b));
    const reads = rule.lookup(task, files.slice(0, most).map(rule.readFile), (steps) => {
      const read = steps.filter((step) => !step.failed);
      return report(files, read) + rule.failures([...globs, ...steps]);
    });
    const isUnread = files.length > 0 && !task.steps.some(({ name }) => name === "read_file");
    if (typeof reads === "string" && isUnread) return `I found ${files.join(", ")}, but read none of it.`;
    return reads;
  });
}
