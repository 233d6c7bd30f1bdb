/**
 * The mutation gate: breaks one guard of the code at a time and checks that a test fails.
 *
 * A mutant is `{ id, promise, file, find, replace, tests, title?, reason? }` in a list under `test/mutants/`.
 * `promise`: the purpose of the guard. `find`: a text that occurs exactly once in `file`; `replace` replaces it. `tests`: the
 * smallest test files that must fail; `title` selects the tests whose name contains it. `reason`: why a survivor is
 * accepted.
 *
 * 1. A mutant that cannot be applied, or does not load, is stale: that is an error, never a pass.
 * 2. A mutant counts only after its own tests passed without it.
 * 3. Each copy of the tree contains one mutant at a time; the tree itself never does (`mutants/test-runs.mjs`).
 *
 * Exit code 1 if a mutant survived without a reason or is stale. `test/mutants/verdicts.json` stores each verdict; it is
 * valid until the mutant's passage of the source or its tests change.
 *
 * --list           prints the mutants, runs nothing
 * --check          checks the lists and the verdicts against the tree, runs nothing; exit code 1 also if a mutant of the
 *                  README's promises has no valid verdict `killed`
 * --unjudged       mutants without a valid verdict
 * --baseline       prints the state of the mutants that the suite of 64bb55e killed; runs nothing
 * --only A,B       these ids or areas (an area is a list's file name)
 * --changed        mutants whose file or tests differ from the main branch, in at most 60 s; prints those left out
 * --base BRANCH    the main branch, for --changed; default main
 * --budget S       time limit in seconds; default 55 with --changed, else none
 * --limit S        time limit of a test run in seconds, default 180; a longer run counts as failed
 * --jobs N         number of copies that run in parallel, default 2
 * --json FILE      also writes the results to this file
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { git, makeCopy, openKnowledge, openRunner, ROOT, setOf, TIME_LIMIT } from "./mutants/test-runs.mjs";
import { gateOf, openVerdicts } from "./mutants/verdicts.mjs";

const LISTS = "test/mutants";
/** A developer waits for `--changed`, so it takes at most a minute, including start and end of this process. */
const CHANGED_BUDGET_S = 55;

const { values: flags } = parseArgs({
  options: {
    list: { type: "boolean", default: false },
    check: { type: "boolean", default: false },
    unjudged: { type: "boolean", default: false },
    baseline: { type: "boolean", default: false },
    only: { type: "string" },
    changed: { type: "boolean", default: false },
    base: { type: "string", default: "main" },
    budget: { type: "string" },
    limit: { type: "string", default: "180" },
    jobs: { type: "string", default: "2" },
    json: { type: "string" },
  },
});

const startedMs = Date.now();
const budgetS = Number(flags.budget ?? (flags.changed ? CHANGED_BUDGET_S : Number.POSITIVE_INFINITY));
const secondsGone = () => (Date.now() - startedMs) / 1_000;
const fits = (ms) => secondsGone() + ms / 1_000 <= budgetS;
const limitS = () => Math.max(1, Math.min(Number(flags.limit), budgetS - secondsGone()));

/** Loads all mutants, each with its area: the name of its list. */
async function loadMutants() {
  const all = [];
  for (const name of readdirSync(join(ROOT, LISTS)).sort()) {
    if (!name.endsWith(".mjs")) continue;
    const list = await import(pathToFileURL(join(ROOT, LISTS, name)).href);
    for (const mutant of list.default) all.push({ area: basename(name, ".mjs"), ...mutant });
  }
  const ids = new Set();
  for (const { id } of all) {
    if (ids.has(id)) throw new Error(`Two mutants are called ${id}.`);
    ids.add(id);
  }
  return all;
}

/** Returns the reason why a mutant cannot be applied to the tree; undefined if it can. */
function staleness({ promise, file, find, replace, tests }) {
  if (!promise || !tests?.length) return "it has no promise or no tests";
  if (find === replace) return "it changes nothing";
  const gone = [file, ...tests].find((path) => contentOf(path) === undefined);
  if (gone) return `${gone} is not there`;
  const times = contentOf(file).split(find).length - 1;
  return times === 1 ? undefined : `its text stands ${times} times in ${file}`;
}

function contentOf(path) {
  try {
    return readFileSync(join(ROOT, path), "utf8");
  } catch {
    return undefined;
  }
}

/** Returns the files that differ from the merge base with the main branch, including uncommitted and new ones. */
function changedFiles() {
  let base = "HEAD";
  try {
    base = git("merge-base", "HEAD", flags.base).trim();
  } catch {
    // Without a main branch only uncommitted files count.
  }
  const names = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard");
  return new Set(names.split("\n"));
}

/** Returns the mutants that the flags select. */
function chosen(all, verdicts) {
  const wanted = flags.only?.split(",");
  const changed = flags.changed ? changedFiles() : undefined;
  return all.filter((mutant) => {
    const { id, area, file, tests } = mutant;
    // Called for each mutant, to compute its digest now: the tree may change during the run.
    const standing = verdicts.standing(mutant);
    return (
      (!flags.unjudged || !standing) &&
      (!wanted || wanted.includes(id) || wanted.includes(area)) &&
      (!changed || [file, ...tests].some((path) => changed.has(path)))
    );
  });
}

/** Applies a mutant in a copy, runs its tests, and reverts it. */
async function judge(copy, runner, mutant) {
  const path = join(copy, mutant.file);
  const original = readFileSync(path, "utf8");
  writeFileSync(path, original.split(mutant.find).join(mutant.replace));
  try {
    const { red, broken, why, ms } = await runner.run(mutant, limitS());
    if (broken) return { verdict: "stale", ms, why: broken };
    return red ? { verdict: "killed", ms, by: red, why } : { verdict: "survived", ms };
  } finally {
    writeFileSync(path, original);
  }
}

/** Runs mutants in parallel, those with quick tests first; calls `tell` with each verdict. Resolves to those left out. */
async function runAll(mutants, tell) {
  const known = openKnowledge(LISTS);
  const costMs = (mutant) => known.expectedMs(setOf(mutant));
  const waiting = mutants.toSorted((a, b) => costMs(a) - costMs(b));
  const leftOut = [];
  const look = async (copy, runner, mutant) => {
    if (!fits(costMs(mutant) * (known.isGreen(setOf(mutant)) ? 1 : 2))) return undefined;
    const problem = await known.problem(runner, mutant, limitS());
    if (!fits(problem ? 0 : costMs(mutant))) return undefined;
    if (problem) return { verdict: "stale", why: `its tests are red without it: ${problem}` };
    const result = await judge(copy, runner, mutant);
    return result.by === TIME_LIMIT && !fits(0) ? undefined : result;
  };
  const lane = async () => {
    let copy;
    let runner;
    for (let mutant = waiting.shift(); mutant; mutant = waiting.shift()) {
      copy ??= makeCopy();
      runner ??= openRunner(copy);
      const result = await look(copy, runner, mutant);
      if (result) tell(mutant, result);
      else leftOut.push(mutant);
    }
    await runner?.close();
  };
  await Promise.all(Array.from({ length: Math.max(1, Number(flags.jobs)) }, lane));
  known.save();
  return leftOut;
}

/** Prints how many mutants have a valid verdict. Returns true if the gate passes ({@link gateOf}). */
function tellStanding(mutants, verdicts) {
  const { killed, survived, inexcusable, unproven, unjudged } = gateOf(mutants, verdicts.standing);
  console.log(
    `${killed.length + survived.length} of ${mutants.length} mutants have a verdict that stands: ${killed.length} killed, ` +
      `${survived.length} survived (${inexcusable.length} without a reason); ${unjudged.length} have none (--unjudged)`,
  );
  if (inexcusable.length > 0) console.log(`Without a reason: ${inexcusable.map(nameOf).join(", ")}`);
  if (unproven.length > 0)
    console.log(`Promises whose mutants are not known to be killed: ${unproven.map(nameOf).join(", ")}`);
  return inexcusable.length === 0 && unproven.length === 0;
}

/** Compares the verdicts with those of the suite at 64bb55e. A survivor of today has its reason in its list. */
function tellBaseline(mutants, verdicts) {
  const now = new Map(mutants.map((mutant) => [mutant.id, verdicts.standing(mutant) ?? "without a verdict"]));
  const then = Object.entries(JSON.parse(contentOf(`${LISTS}/baseline-64bb55e.json`)));
  const killed = then.filter(([, { verdict }]) => verdict === "killed").map(([name]) => name);
  const having = (fate) => killed.filter((name) => (now.get(basename(name)) ?? "gone") === fate);
  const [alive, gone] = [having("survived"), having("gone")];
  console.log(
    `Of ${killed.length} mutants that died at 64bb55e: ${having("killed").length} die, ${alive.length} survive, ` +
      `${having("without a verdict").length} have no verdict that stands, ${gone.length} are gone with what they broke`,
  );
  for (const [fate, names] of [
    ["Survive", alive],
    ["Gone", gone],
  ])
    if (names.length > 0) console.log(`${fate}: ${names.join(", ")}`);
}

const nameOf = ({ area, id }) => `${area}/${id}`;

function lineOf({ verdict, ms, by, why, reason, promise, ...mutant }) {
  const survived = reason ? `accepted: ${reason}` : promise;
  const detail = { killed: by, survived, stale: why }[verdict];
  const time = ms === undefined ? "" : ` (${(ms / 1_000).toFixed(1)} s)`;
  return `${verdict.padEnd(8)} ${nameOf(mutant)}${time} - ${detail}`;
}

async function main() {
  const all = await loadMutants();
  // All mutants are checked against the tree, also those that are not run.
  const stale = new Set(all.filter(staleness));
  const sound = all.filter((mutant) => !stale.has(mutant));
  const verdicts = openVerdicts();
  const mutants = chosen(sound, verdicts);
  if (flags.list) {
    for (const mutant of mutants) console.log(`${nameOf(mutant)}: ${mutant.promise}`);
    console.log(`${mutants.length} mutants`);
    return 0;
  }
  if (flags.baseline) {
    tellBaseline(sound, verdicts);
    return 0;
  }
  const results = [];
  const tell = ({ find: _find, replace: _replace, ...mutant }, result) => {
    results.push({ ...mutant, ...result });
    console.log(lineOf({ ...mutant, ...result }));
  };
  for (const mutant of stale) tell(mutant, { verdict: "stale", why: staleness(mutant) });
  if (flags.check) return tellStanding(sound, verdicts) && stale.size === 0 ? 0 : 1;

  const leftOut = await runAll(mutants, (mutant, result) => {
    tell(mutant, result);
    if (result.verdict === "stale") return;
    verdicts.note(mutant, result.verdict);
    verdicts.save(all);
  });
  return summarize(results, leftOut, all.length);
}

/** Prints the results. Returns the exit code. */
function summarize(results, leftOut, allCount) {
  const seconds = Math.round(secondsGone());
  if (flags.json) writeFileSync(flags.json, `${JSON.stringify({ seconds, results }, undefined, 2)}\n`);
  const count = (verdict) => results.filter((result) => result.verdict === verdict).length;
  const accepted = results.filter(({ verdict, reason }) => verdict === "survived" && reason).length;
  if (accepted > 0) console.log(`${accepted} of the survivors are accepted, each with its reason.`);
  if (leftOut.length > 0) {
    console.log(
      `${leftOut.length} left out, for they would not fit into ${budgetS} s: ${leftOut.map(nameOf).join(", ")}`,
    );
  }
  console.log(`${results.length} of ${allCount} mutants in ${seconds} s`);
  console.log(`${count("killed")} killed, ${count("survived")} survived, ${count("stale")} stale`);
  return count("survived") > accepted || count("stale") > 0 ? 1 : 0;
}

process.exitCode = await main();
