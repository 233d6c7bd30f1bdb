/**
 * Runs test files in one long-lived vitest: a run needs no start, and only changed files are transformed again.
 *
 * `test-runs.mjs` starts it in a copy of the tree. Each message is a run: `tests`, files relative to the copy; `title`, which
 * selects tests; `mutated`, the file with the mutant, if any. The answer: `passed`, the number of passed tests; `red` and
 * `why`, the first failed test, which ends the run (vitest's `bail` loses the result that ended it); `broken`, why the run
 * proves nothing. The message `end` ends the process. Each test file has its own process, as in every run.
 */
import { join, relative } from "node:path";
import { createVitest } from "vitest/node";

const root = process.cwd();
const nameOf = (module) => relative(root, module.moduleId);
const firstWords = (errors) => (errors[0]?.message ?? "").split("\n").slice(0, 3).join(" ").slice(0, 300);
const literal = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Limit (ms) of a test's wait for a state. The tests passed here without the mutant, so a longer wait is due to it. */
process.env.SUBAGENT_TEST_PATIENCE_MS = "15000";

let found;
/** Stores a verdict; only the first one counts. */
const tell = (verdict) => {
  if (!found.red && !found.broken) Object.assign(found, verdict);
};

const reporter = {
  onTestCaseResult(test) {
    const { state, errors } = test.result();
    if (state === "passed") found.passed += 1;
    if (state !== "failed") return;
    tell({ red: `${nameOf(test.module)} › ${test.fullName}`, why: firstWords(errors) });
    void vitest.cancelCurrentRun("test-failure");
  },
  /** Reports errors outside of tests, which arrive last. */
  onTestRunEnd(modules, outside) {
    for (const module of modules) {
      const errors = module.errors();
      if (errors.length === 0) continue;
      const tests = [...module.children.allTests()];
      if (tests.length === 0) tell({ broken: `${nameOf(module)} does not load: ${firstWords(errors)}` });
      else tell({ red: `${nameOf(module)} › after its tests`, why: firstWords(errors) });
    }
    if (outside.length > 0) tell({ red: "an error outside of any test", why: firstWords(outside) });
  },
};

const vitest = await createVitest("test", {
  watch: false,
  project: ["redis"],
  maxWorkers: 1,
  testTimeout: 30_000,
  hookTimeout: 60_000,
  reporters: [reporter],
});
await vitest.standalone();
const [project] = vitest.projects;

const end = async () => {
  await vitest.close();
  process.exit();
};

// Node keeps messages that arrive before this line until the listener is added.
process.on("message", async (message) => {
  if (message === "end") return end();
  const { tests, title, mutated } = message;
  found = { passed: 0 };
  const forgetMutant = () => vitest.invalidateFile(join(root, mutated));
  try {
    forgetMutant();
    if (title) vitest.setGlobalTestNamePattern(new RegExp(literal(title)));
    else vitest.resetGlobalTestNamePattern();
    await vitest.runTestSpecifications(tests.map((test) => project.createSpecification(join(root, test))));
  } catch (error) {
    tell({ broken: String(error) });
  } finally {
    // The next run has another mutant, and the original of this file.
    forgetMutant();
  }
  process.send(found);
});
process.on("disconnect", end);
