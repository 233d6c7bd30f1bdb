/**
 * Fails a test file that leaves a resource open. Vitest loads this before each test file, in the file's own process.
 *
 * 1. The baseline is taken before the file is loaded, so resources opened at its top level count too.
 * 2. The check is the file's last hook: first its own hooks run, then the closers of the helpers, then the check.
 * 3. Resources that are closing get up to 2 s. The wait ends as soon as they are closed.
 */
import { afterAll } from "vitest";
import { closeAll } from "../helpers/cleanup.ts";
import { aliveResources, describeAlive, leakedSince, watchThreadsAndSockets } from "./leaks.ts";
import { traceTimers } from "./timers.ts";

const SETTLE_MS = 2_000;
const POLL_MS = 10;
const { setTimeout: realSetTimeout, performance: realPerformance } = globalThis;

// Standard streams open lazily: if a test's first output opened them, they would look like a leak.
void process.stdout;
void process.stderr;
watchThreadsAndSockets();
traceTimers();
const baseline = aliveResources();

afterAll(async () => {
  await closeAll();
  const deadlineMs = realPerformance.now() + SETTLE_MS;
  let leaked = leakedSince(baseline);
  while (leaked.length > 0 && realPerformance.now() < deadlineMs) {
    await new Promise((resolve) => realSetTimeout(resolve, POLL_MS).unref());
    leaked = leakedSince(baseline);
  }
  if (leaked.length === 0) return;
  const alive = describeAlive().map((handle) => `\n  ${handle}`);
  throw new Error(
    `this test file left running: ${leaked.join(", ")}\nall that is alive, the runner's own included:${alive.join("")}`,
  );
});
