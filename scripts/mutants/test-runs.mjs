/**
 * Test runs for the mutation gate: copies of the tree, runs of selected tests in them, and the results of earlier runs.
 *
 * 1. The tree itself is never written: tests run in temporary copies, which this process deletes at its end.
 * 2. A run ends within its limit; processes that it leaves end with its runner.
 * 3. A run that proves nothing about the code (a file that does not load, no test at all) is not a failed test.
 */
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The repository. */
export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
/** Reported in place of a test's name if a run took too long. */
export const TIME_LIMIT = "the time limit";
const LATE = { red: TIME_LIMIT, why: "the tests did not end" };

const CACHE = join(ROOT, "node_modules/.cache/mutants.json");
const TERM_MS = 5_000;
const CLOSE_MS = 30_000;
/** Expected time of a test set that has not run yet; the second is for sets without integration tests. */
const UNKNOWN_MS = 5_000;
const UNKNOWN_UNIT_MS = 1_000;
/** Folder of the command-line tests, which run the built package. */
const NEEDS_BUILD = "test/e2e/";
/** Matches the error of a file that does not load, before any test runs. */
const DOES_NOT_LOAD = /Error compiling script|Transform failed|Parse failure|SyntaxError/;

const groups = new Set();
const copies = new Set();
process.on("exit", () => {
  for (const group of groups) endGroup(group, "SIGTERM");
  for (const copy of copies) rmSync(copy, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));

/** Runs git in the repository and returns its output. */
export const git = (...args) => execFileSync("git", args, { cwd: ROOT, encoding: "utf8" });

/** Returns the files of the working tree below some paths, including untracked ones. */
const filesOf = (...paths) =>
  git("ls-files", "-co", "--exclude-standard", ...paths)
    .split("\n")
    .filter((path) => path !== "");

/** Creates a temporary copy of the working tree; node_modules is shared. */
export function makeCopy() {
  const copy = mkdtempSync(join(tmpdir(), "mutants-"));
  copies.add(copy);
  for (const file of filesOf()) {
    try {
      mkdirSync(dirname(join(copy, file)), { recursive: true });
      cpSync(join(ROOT, file), join(copy, file));
    } catch (error) {
      if (error.code !== "ENOENT") throw error; // a deleted file whose deletion is not committed
    }
  }
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  return copy;
}

/**
 * Creates a runner of tests in a copy. `run` ends at the first failed test and returns `red`, its name or the time limit;
 * `why`, its first words; `broken`, why the run proves nothing. Without `red` and `broken` the run passed. All runs share
 * one vitest process; if a run had to kill it, the next run starts another.
 */
export function openRunner(copy) {
  let vitest;
  const ask = async ({ tests, title, file }, limitMs) => {
    vitest ??= startNode(copy, [join(ROOT, "scripts/mutants/warm-runner.mjs"), "--project=redis"]);
    const answer = once(vitest, "message").then(([found]) => found);
    vitest.send({ tests, title, mutated: file });
    const found = await within(limitMs, vitest, answer);
    if (found.late || "code" in found) vitest = undefined;
    return verdictOf(found);
  };
  return {
    async run(mutant, limitS) {
      const beganMs = Date.now();
      const leftMs = () => limitS * 1_000 - (Date.now() - beganMs);
      const problem =
        mutant.tests.some((test) => test.startsWith(NEEDS_BUILD)) && (await build(copy, leftMs()));
      const verdict = problem || (await ask(mutant, leftMs()));
      return { ms: Date.now() - beganMs, ...verdict };
    },
    async close() {
      if (!vitest) return;
      // Not `disconnect()`: after it the child process never emits "close" (Node 20).
      if (vitest.connected) vitest.send("end");
      await within(CLOSE_MS, vitest, vitest.ended);
    },
  };
}

/** Builds the package in a copy; returns the failure, or undefined. */
async function build(copy, limitMs) {
  const child = startNode(copy, ["scripts/build.mjs", "--if-changed"]);
  const { late, code, said } = await within(limitMs, child, child.ended);
  if (late) return LATE;
  return code === 0 ? undefined : { broken: `no build: ${said}` };
}

/** Starts node in a copy, in its own process group; `ended` resolves to its exit code and the end of its stderr. */
function startNode(copy, args) {
  const stdio = ["ignore", "ignore", "pipe", "ipc"];
  const child = spawn(process.execPath, args, { cwd: copy, detached: true, stdio });
  groups.add(child.pid);
  let said = "";
  child.stderr.on("data", (chunk) => {
    said = (said + chunk).slice(-300);
  });
  child.ended = once(child, "close").then(([code]) => {
    groups.delete(child.pid);
    return { code, said: said.trim() };
  });
  return child;
}

/** Resolves to a child's answer, or to its end if that comes first; `late`: the child was killed at the limit. */
async function within(limitMs, child, answer) {
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    endGroup(child.pid, "SIGTERM");
    setTimeout(() => endGroup(child.pid, "SIGKILL"), TERM_MS).unref();
  }, limitMs);
  const found = await Promise.race([answer, child.ended]);
  clearTimeout(timer);
  return { late, ...found };
}

function endGroup(pid, signal) {
  try {
    process.kill(-pid, signal);
  } catch {
    // The process has already ended.
  }
}

function verdictOf({ late, passed, red, why, broken, said }) {
  if (late) return LATE;
  if (said !== undefined) return { broken: `the runner ended: ${said}` };
  if (broken) return { broken };
  if (red) return DOES_NOT_LOAD.test(why) ? { broken: `it does not load: ${why}` } : { red, why };
  return passed > 0 ? {} : { broken: "no test ran" };
}

/** Returns the name of a mutant's test set. */
export const setOf = ({ tests, title }) => [...tests].sort().join(" ") + (title ? ` -t ${title}` : "");

/**
 * Opens the stored knowledge of test sets: the time of each (from any earlier call), and whether it passes in the current
 * tree. Files below the path `unless` do not belong to that tree.
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
    // There is no cache yet.
  }
  const ms = stored.ms ?? {};
  const green = stored.tree === tree ? (stored.green ?? {}) : {};
  const runs = new Map();
  return {
    expectedMs: (key) => ms[key] ?? (key.includes("test/integration/") ? UNKNOWN_MS : UNKNOWN_UNIT_MS),
    isGreen: (key) => green[key] === true,
    /** Runs a test set without a mutant, once for all callers; resolves to its failure, or undefined if it passes. */
    async problem(runner, mutant, limitS) {
      const key = setOf(mutant);
      if (green[key]) return undefined;
      if (!runs.has(key)) runs.set(key, runner.run(mutant, limitS));
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
