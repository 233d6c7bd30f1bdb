import { join } from "node:path";
import { globSync } from "tinyglobby";
import { describe } from "vitest";

const ROOT = join(import.meta.dirname, "..", "..");

/**
 * Combines the matching test files into one file with a `describe` for each, sorted by path. Each process of a project loads
 * all sources, and one process is enough for files that mostly wait for another Redis. To run one file:
 * `npx vitest run --project on-cluster -t test/integration/verbs/send.test.ts`.
 */
export function inOneProcess(globs: readonly string[]): void {
  for (const file of globSync([...globs], { cwd: ROOT }).sort()) {
    describe(file, async () => {
      await import(join(ROOT, file));
    });
  }
}
