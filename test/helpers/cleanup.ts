/**
 * Decides when a resource that a helper opened is closed again.
 *
 * Owns: the list of closers that belong to the running test file. `test/setup/leak-check.ts` runs that list after the
 * file's own hooks and before it checks for leaks.
 *
 * 1. A resource opened inside a test is closed at the end of the test, passed or failed.
 * 2. A resource opened anywhere else (a hook, the top of a file) is closed at the end of the file.
 * 3. Closers run newest first, each of them even if another one failed.
 */
import { onTestFinished, TestRunner } from "vitest";

/** Closes a resource; must be safe to call when it is already closed. */
export type Closer = () => Promise<void> | void;

const closersOfThisFile: Closer[] = [];

/** Registers `close` for the end of the running test, or of the file if no test is running. */
export function closeAtEnd(close: Closer): void {
  if (TestRunner.getCurrentTest() === undefined) closersOfThisFile.push(close);
  else onTestFinished(async () => close());
}

/** Runs the file's closers, newest first, and empties the list. Rejects with an AggregateError of all failures. */
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
