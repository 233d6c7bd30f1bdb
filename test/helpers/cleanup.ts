/**
 * Decides when what a helper opened is closed again.
 *
 * Owns: the list of closers that belong to the running test file. Its neighbour `test/setup/leak-check.ts` runs
 * that list after the file's own hooks and before it looks for leaks.
 *
 * 1. Opened inside a test: closed when that test is over, passed or failed.
 * 2. Opened anywhere else (a hook, the top of a file): closed when the file is over.
 * 3. Closers run newest first, each of them even if another one failed.
 */
import { onTestFinished, TestRunner } from "vitest";

/** Closes something; must be safe to call when it is closed already. */
export type Closer = () => Promise<void> | void;

const closersOfThisFile: Closer[] = [];

/** Has `close` called at the end of the running test, or of the file when no test is running. */
export function closeAtEnd(close: Closer): void {
  if (TestRunner.getCurrentTest() === undefined) closersOfThisFile.push(close);
  else onTestFinished(async () => close());
}

/** Runs the file's closers, newest first, and empties the list. Rejects with all failures together. */
export async function closeAll(): Promise<void> {
  const failures: unknown[] = [];
  for (let close = closersOfThisFile.pop(); close !== undefined; close = closersOfThisFile.pop()) {
    try {
      await close();
    } catch (failure) {
      failures.push(failure);
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, "closing what the tests opened failed");
}
