/**
 * A reporter for test runs that end with their first red test. The runner's own `--bail` loses the result that ended it.
 * Writes to the file that `FIRST_RED_FILE` names: `passed`, how many tests were green; `red` and `why`, the first red one;
 * `broken`, why a file said nothing at all.
 */
import { writeFileSync } from "node:fs";
import { relative } from "node:path";

const firstWords = (errors) => (errors[0]?.message ?? "").split("\n").slice(0, 3).join(" ").slice(0, 300);

/** See the module's header. */
export default class FirstRed {
  #found = { passed: 0 };

  /** Called by vitest before anything runs. */
  onInit(vitest) {
    this.vitest = vitest;
  }

  /** Called by vitest after each test. */
  onTestCaseResult(test) {
    const { state, errors } = test.result();
    if (state === "passed") this.#found.passed += 1;
    if (state !== "failed") return;
    this.#tell({ red: `${this.#nameOf(test.module)} › ${test.fullName}`, why: firstWords(errors) });
    void this.vitest.cancelCurrentRun("test-failure");
  }

  /** Called by vitest once: what is red outside of any test comes last. */
  onTestRunEnd(modules, outside) {
    for (const module of modules) {
      const errors = module.errors();
      if (errors.length === 0) continue;
      const tests = [...module.children.allTests()];
      if (tests.length === 0)
        this.#tell({ broken: `${this.#nameOf(module)} does not load: ${firstWords(errors)}` });
      else this.#tell({ red: `${this.#nameOf(module)} › after its tests`, why: firstWords(errors) });
    }
    if (outside.length > 0) this.#tell({ red: "an error outside of any test", why: firstWords(outside) });
    this.#tell({});
  }

  #nameOf(module) {
    return relative(this.vitest.config.root, module.moduleId);
  }

  /** The first word counts. */
  #tell(verdict) {
    if (!this.#found.red && !this.#found.broken) Object.assign(this.#found, verdict);
    writeFileSync(process.env.FIRST_RED_FILE, JSON.stringify(this.#found));
  }
}
