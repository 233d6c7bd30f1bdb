/**
 * Test runs for the mutation gate: copies of the tree, runs of named tests in them, and what earlier runs have shown.
 *
 * 1. The tree itself is never written: tests run in throw-away copies, which are gone when this process ends.
 * 2. A run ends within its limit, and everything it started with it.
 * 3. A run that says nothing about the code (a file that does not load, no test at all) is told from a red one.
 */
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The repository. */
export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
/** What ended a run that took too long, in place of a test's name. */
export const TIME_LIMIT = "the time limit";

const CACHE = join(ROOT, "node_modules/.cache/mutants.json");
const TERM_MS = 5_000;
/** A test set whose time nobody knows yet is expected to take this long. */
const UNKNOWN_MS = 5_000;
/** Command-line tests run what was built. */
const NEEDS_BUILD = "test/e2e/";
/** What a broken file says before any test can judge it. */
const DOES_NOT_LOAD = /Error compiling script|Transform failed|Parse failure|SyntaxError/;

const groups = new Set();
const copies = new Set();
process.on("exit", () => {
  for (const group of groups) endGroup(group, "SIGTERM");
  for (const copy of copies) rmSync(copy, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));

/** What git answers. */
export const git = (...args) => execFileSync("git", args, { cwd: ROOT, encoding: "utf8" });

/** Files of the working tree below some paths, those that git does not know yet included. */
const filesOf = (...paths) =>
  git("ls-files", "-co", "--exclude-standard", ...paths)
    .split("\n")
    .filter((path) => path !== "");

/** A throw-away copy of the working tree; packages are shared. */
export function makeCopy() {
  const copy = mkdtempSync(join(tmpdir(), "mutants-"));
  copies.add(copy);
  for (const file of filesOf()) {
    try {
      mkdirSync(dirname(join(copy, file)), { recursive: true });
      cpSync(join(ROOT, file), join(copy, file));
    } catch (error) {
      if (error.code !== "ENOENT") throw error; // deleted, and the deletion is not committed yet
    }
  }
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  return copy;
}

/**
 * Runs tests in a copy, until the first red one. `red`: what was red, the time limit included; `why`: its first words;
 * `broken`: why the run says nothing. Green when there is neither.
 */
export async function runTests(copy, { tests, title }, limitS) {
  const report = join(copy, "mutant-report.json");
  rmSync(report, { force: true });
  const beganMs = Date.now();
  if (tests.some((test) => test.startsWith(NEEDS_BUILD))) {
    const built = await run(copy, ["scripts/build.mjs", "--if-changed"], limitS);
    if (built.code !== 0) return { ms: Date.now() - beganMs, broken: `no build: ${built.said}` };
  }
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  const how = [
    "--project",
    "redis",
    "--maxWorkers",
    "1",
    "--reporter",
    join(ROOT, "scripts/mutants/first-red.mjs"),
  ];
  const only = title ? ["-t", title.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")] : [];
  const ended = await run(copy, [vitest, "run", ...how, ...only, ...tests], limitS, {
    FIRST_RED_FILE: report,
  });
  return { ms: Date.now() - beganMs, ...verdictOf(report, ended) };
}

/** Runs node in a copy, in a process group of its own. */
async function run(copy, args, limitS, more = {}) {
  const env = { ...process.env, ...more };
  const child = spawn(process.execPath, args, {
    cwd: copy,
    detached: true,
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  groups.add(child.pid);
  let said = "";
  child.stderr.on("data", (chunk) => {
    said = (said + chunk).slice(-300);
  });
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    endGroup(child.pid, "SIGTERM");
    setTimeout(() => endGroup(child.pid, "SIGKILL"), TERM_MS).unref();
  }, limitS * 1_000);
  const code = await new Promise((resolve) => child.on("close", resolve));
  clearTimeout(timer);
  groups.delete(child.pid);
  return { code, late, said: said.trim() };
}

function endGroup(pid, signal) {
  try {
    process.kill(-pid, signal);
  } catch {
    // It has ended by itself.
  }
}

function verdictOf(report, { code, late, said }) {
  if (late) return { red: TIME_LIMIT, why: "the tests did not end" };
  let found;
  try {
    found = JSON.parse(readFileSync(report, "utf8"));
  } catch {
    return { broken: `no report: ${said}` };
  }
  const { passed, red, why, broken } = found;
  if (broken) return { broken };
  if (red) return DOES_NOT_LOAD.test(why) ? { broken: `it does not load: ${why}` } : { red, why };
  if (code !== 0) return { red: "an error outside of any test", why: said };
  return passed > 0 ? {} : { broken: "no test ran" };
}

/** The name of a test set. */
export const setOf = ({ tests, title }) => [...tests].sort().join(" ") + (title ? ` -t ${title}` : "");

/**
 * What is known of test sets: how long each takes (from any earlier call), and whether it is green in the tree as it is.
 * `unless` is a path that does not count as a part of that tree.
 */
export function openKnowledge(unless) {
  const hash = createHash("sha256");
  for (const file of filesOf("src", "test", "package-lock.json", "vitest.config.ts")) {
    if (file.startsWith(unless)) continue;
    try {
      hash.update(file).update(readFileSync(join(ROOT, file)));
    } catch {
      hash.update(`${file} is deleted`);
    }
  }
  const tree = hash.digest("hex");
  let stored = {};
  try {
    stored = JSON.parse(readFileSync(CACHE, "utf8"));
  } catch {
    // Nothing is known yet.
  }
  const ms = stored.ms ?? {};
  const green = stored.tree === tree ? (stored.green ?? {}) : {};
  const runs = new Map();
  return {
    expectedMs: (key) => ms[key] ?? UNKNOWN_MS,
    isGreen: (key) => green[key] === true,
    /** Why the tests of a set are not green without any mutant; undefined when they are. Run once, by whoever asks first. */
    async problem(copy, mutant, limitS) {
      const key = setOf(mutant);
      if (green[key]) return undefined;
      if (!runs.has(key)) runs.set(key, runTests(copy, mutant, limitS));
      const { red, broken, why = "", ms: tookMs } = await runs.get(key);
      if (red ?? broken) return `${red ?? broken} ${why}`;
      [green[key], ms[key]] = [true, tookMs];
      return undefined;
    },
    save() {
      mkdirSync(dirname(CACHE), { recursive: true });
      writeFileSync(CACHE, JSON.stringify({ tree, green, ms }));
    },
  };
}
