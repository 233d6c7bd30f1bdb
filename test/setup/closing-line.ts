import type { Reporter, SerializedError, TestModule } from "vitest/node";

/**
 * Prints the run's counts as its last line: `N passed, N failed`, and `, N skipped` when there are any.
 * A file that failed without a failing test (it could not be loaded, a hook failed, it leaked) and an error outside
 * of any test count as one failure each, so the line never says `0 failed` about a failed run.
 */
export default class ClosingLine implements Reporter {
  /** Called by vitest once, after everything has run. */
  onTestRunEnd(modules: readonly TestModule[], outside: readonly SerializedError[]): void {
    const counts = { passed: 0, failed: outside.length, skipped: 0 };
    for (const module of modules) {
      const states = [...module.children.allTests()].map((test) => test.result().state);
      for (const state of states) counts[state === "pending" ? "skipped" : state] += 1;
      if (module.state() === "failed" && !states.includes("failed")) counts.failed += 1;
    }
    const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : "";
    process.stdout.write(`${counts.passed} passed, ${counts.failed} failed${skipped}\n`);
  }
}
