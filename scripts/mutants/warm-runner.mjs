/**
 * Runs test files in one vitest that stays: a run costs no start, and only what changed is transformed anew.
 *
 * Started by `test-runs.mjs` in a copy of the tree. Each message is a run: `tests`, files relative to the copy; `title`,
 * which narrows them; `mutated`, the file that holds the mutant, if any. The answer is what the run showed: `passed`, how
 * many tests were green; `red` and `why`, the first red one, which ends the run (the runner's own `bail` loses the result that
 * ended it); `broken`, why it says nothing. `end` ends it. Each test file has a process of its own, as in every run.
 */
import { join, relative } from "node:path";
import { createVitest } from "vitest/node";

const root = process.cwd();
const nameOf = (module) => relative(root, module.moduleId);
const firstWords = (errors) => (errors[0]?.message ?? "").split("\n").slice(0, 3).join(" ").slice(0, 300);
const literal = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** What waits longer than this for a state has a mutant in its way, ms: the tests were green without it, on this machine. */
process.env.SUBAGENT_TEST_PATIENCE_MS = "15000";

let found;
/** The first word counts. */
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
  /** What is red outside of any test comes last. */
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

// A message that came before this line waited for it.
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
    // The next run has another mutant, and this file as it was.
    forgetMutant();
  }
  process.send(found);
});
process.on("disconnect", end);
