import { join } from "node:path";
import { globSync } from "tinyglobby";
import { describe } from "vitest";

const ROOT = join(import.meta.dirname, "..", "..");

/**
 * Makes the test files that match one file with a part for each, in the order of their names. A project of its own has
 * processes of its own, and each loads all sources: one is enough for files that only wait for another Redis. A part alone:
 * `npx vitest run --project on-cluster -t test/integration/verbs/send.test.ts`.
 */
export function inOneProcess(globs: readonly string[]): void {
  for (const file of globSync([...globs], { cwd: ROOT }).sort()) {
    describe(file, async () => {
      await import(join(ROOT, file));
    });
  }
}
