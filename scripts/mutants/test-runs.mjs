/**
 * Test runs for the mutation gate: copies of the tree, runs of named tests in them, and what earlier runs have shown.
 *
 * 1. The tree itself is never written: tests run in throw-away copies, which are gone when this process ends.
 * 2. A run ends within its limit; what it leaves running ends with its runner.
 * 3. A run that says nothing about the code (a file that does not load, no test at all) is told from a red one.
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
/** What ended a run that took too long, in place of a test's name. */
export const TIME_LIMIT = "the time limit";
const LATE = { red: TIME_LIMIT, why: "the tests did not end" };

const CACHE = join(ROOT, "node_modules/.cache/mutants.json");
const TERM_MS = 5_000;
const CLOSE_MS = 30_000;
/** A test set whose time nobody knows yet is expected to take this long, one of unit tests this long. */
const UNKNOWN_MS = 5_000;
const UNKNOWN_UNIT_MS = 1_000;
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
 * A runner of tests in a copy: `run` ends at the first red one, and says `red`, what was red, the time limit included; `why`,
 * its first words; `broken`, why the run says nothing; green when there is neither. The vitest behind it stays from run to
 * run; one that a run had to end is replaced.
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
      // Not by `disconnect()`: a child whose channel this side closed never says that it is closed (Node 20).
      if (vitest.connected) vitest.send("end");
      await within(CLOSE_MS, vitest, vitest.ended);
    },
  };
}

/** Undefined when the build is done. */
async function build(copy, limitMs) {
  const child = startNode(copy, ["scripts/build.mjs", "--if-changed"]);
  const { late, code, said } = await within(limitMs, child, child.ended);
  if (late) return LATE;
  return code === 0 ? undefined : { broken: `no build: ${said}` };
}

/** Starts node in a copy, in a process group of its own; `ended` resolves to its exit code and what it said at last. */
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

/** What a child answers, or how it ended first; `late` when it had to be ended. */
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
    // It has ended by itself.
  }
}

function verdictOf({ late, passed, red, why, broken, said }) {
  if (late) return LATE;
  if (said !== undefined) return { broken: `the runner ended: ${said}` };
  if (broken) return { broken };
  if (red) return DOES_NOT_LOAD.test(why) ? { broken: `it does not load: ${why}` } : { red, why };
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
    expectedMs: (key) => ms[key] ?? (key.includes("test/integration/") ? UNKNOWN_MS : UNKNOWN_UNIT_MS),
    isGreen: (key) => green[key] === true,
    /** Why the tests of a set are not green without any mutant; undefined when they are. Run once, by whoever asks first. */
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
