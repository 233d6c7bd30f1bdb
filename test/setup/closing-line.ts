import { globSync } from "tinyglobby";
import type { Reporter, SerializedError, TestModule, Vitest } from "vitest/node";

import { NEED_A_SERVER } from "./server-binary.ts";

const HOW_TO_GET_ONE = "install redis-server, or name a binary in REDIS_SERVER_BIN.";

/**
 * Prints the run's counts as its last line: `N passed, N failed`, and `, N skipped` if there are any. A file that is
 * left out because the machine has no Redis server counts as one skipped.
 * A file that failed without a failing test (it could not be loaded, a hook failed, it leaked) counts as one failure.
 * So does an error outside of any test. The line therefore never says `0 failed` about a failed run.
 */
export default class ClosingLine implements Reporter {
  #leavesOut = false;

  /** Called by vitest before anything runs. */
  onInit({ projects }: Vitest): void {
    this.#leavesOut = projects.some(({ config }) => config.exclude.includes(NEED_A_SERVER[0] ?? ""));
  }

  /** Called by vitest once, after everything has run. */
  onTestRunEnd(modules: readonly TestModule[], outside: readonly SerializedError[]): void {
    const counts = { passed: 0, failed: outside.length, skipped: 0 };
    for (const module of modules) {
      const states = [...module.children.allTests()].map((test) => test.result().state);
      for (const state of states) counts[state === "pending" ? "skipped" : state] += 1;
      if (module.state() === "failed" && !states.includes("failed")) counts.failed += 1;
    }
    const leftOut = this.#leavesOut ? globSync([...NEED_A_SERVER]).length : 0;
    if (leftOut > 0) {
      counts.skipped += leftOut;
      process.stdout.write(
        `${leftOut} test files need a real Redis server and were left out: ${HOW_TO_GET_ONE}\n`,
      );
    }
    const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : "";
    process.stdout.write(`${counts.passed} passed, ${counts.failed} failed${skipped}\n`);
  }
}
