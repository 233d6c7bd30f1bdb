/** Answers which testing framework a project uses, from its manifests and from what its files import. Pure. */
import type { Step } from "../conversation.ts";
import { type Framework, frameworksIn, IMPORTS, importedIn, MANIFESTS, scriptsIn } from "./frameworks.ts";
import {
  complaints,
  counted,
  foundHits,
  foundPaths,
  globIn,
  grepIn,
  readFile,
  stepsOf,
  within,
} from "./lookup.ts";
import { answer, call, consult, PARALLEL_CALLS, type Rule } from "./rule.ts";

const MAX_MANIFESTS = 2 * PARALLEL_CALLS;

/** Looks for manifests and imports, reads manifests level by level from the top until one names a framework. */
export const testFramework: Rule = {
  name: "test-framework",
  matches: (text) => /\btest(?:ing)?[- ](?:framework|runner|library)s?\b/i.test(text),
  next(task) {
    const look = consult(task, [
      ...globIn(task.places, `**/{${MANIFESTS.join(",")}}`),
      ...grepIn(task.places, IMPORTS),
    ]);
    if (look.status === "pending")
      return call("Looking for the project's manifests and test files.", look.calls);
    const globbed = stepsOf(look.steps, "glob");
    const manifests =
      globbed.length > 0 ? foundPaths(globbed) : task.places.map((place) => within(place, "package.json"));
    const read: Step[] = [];
    for (const level of levelsOf(manifests)) {
      const reads = consult(task, level.map(readFile));
      if (reads.status === "pending") return call("Reading what the manifests say.", reads.calls);
      read.push(...reads.steps);
      if (findIn(reads.steps).length > 0) break;
    }
    return answer(report(manifests, read, look.steps));
  },
};

/** Manifests grouped by depth, shallowest first, the most telling file first, `MAX_MANIFESTS` in all. */
function levelsOf(manifests: readonly string[]): string[][] {
  const rank = (path: string) => MANIFESTS.findIndex((name) => path.endsWith(name));
  const depth = (path: string) => path.split("/").length;
  const sorted = [...manifests]
    .sort((a, b) => depth(a) - depth(b) || rank(a) - rank(b))
    .slice(0, MAX_MANIFESTS);
  return [...new Set(sorted.map(depth))].map((level) => sorted.filter((path) => depth(path) === level));
}

const pathOf = (step: Step): string => String(step.input.file_path);

function findIn(reads: readonly Step[]): Framework[] {
  return reads.filter((step) => !step.failed).flatMap((step) => frameworksIn(pathOf(step), step.output));
}

function report(manifests: readonly string[], reads: readonly Step[], looked: readonly Step[]): string {
  const [main, ...others] = findIn(reads);
  const imports = importSentence(looked);
  if (main === undefined) return nothingFound(manifests, reads, looked) + imports;
  const also = others.map((other) => `${label(other)} (${other.file})`).join(", ");
  return (
    `This project uses ${label(main)} as its testing framework: ${main.file} says so, ${main.evidence}.` +
    (also === "" ? "" : ` Also named: ${also}.`) +
    imports
  );
}

const label = ({ name, version }: Framework): string => (version === "" ? name : `${name} ${version}`);

function nothingFound(manifests: readonly string[], reads: readonly Step[], looked: readonly Step[]): string {
  const trouble = complaints([...looked, ...reads]);
  const because = trouble === "" ? "" : ` (${trouble})`;
  if (looked.length + reads.length === 0)
    return "I could not look: no tool that searches or reads files may be used now.";
  if (manifests.length === 0)
    return `I found no testing framework: there is no package.json, pyproject.toml or other manifest here${because}.`;
  const seen = reads.filter((step) => !step.failed);
  if (seen.length === 0)
    return `I found ${manifests.slice(0, 3).join(", ")}, but have not read any of it${because}.`;
  const files = seen.map((step) => {
    const scripts = Object.keys(scriptsIn(step.output));
    return pathOf(step) + (scripts.length === 0 ? "" : ` (scripts: ${scripts.slice(0, 12).join(", ")})`);
  });
  return `I found no testing framework in the manifests: none is named in ${files.join(", ")}${because}.`;
}

function importSentence(looked: readonly Step[]): string {
  const hits = foundHits(looked);
  const files = [...new Set(hits.map((hit) => hit.path))].sort();
  if (files.length === 0) return "";
  const names = [...new Set(hits.flatMap((hit) => importedIn(hit.text)))].sort();
  const verb = files.length === 1 ? "imports" : "import";
  return ` ${counted(files.length, "file")} ${verb} ${names.join(", ")}, for example ${files[0]}.`;
}
