/**
 * Fails a test file that leaves something running. Loaded before each test file, in the file's own process.
 *
 * 1. The baseline is taken before the file is loaded, so what its top level opens counts too.
 * 2. The check is the file's last hook: first its own hooks, then the closers of the helpers, then the look.
 * 3. What is on its way out gets up to 2 s, spent waiting for the condition and not a moment longer.
 */
import { afterAll } from "vitest";
import { closeAll } from "../helpers/cleanup.ts";
import { aliveResources, describeAlive, leakedSince, watchThreadsAndSockets } from "./leaks.ts";
import { traceTimers } from "./timers.ts";

const SETTLE_MS = 2_000;
const POLL_MS = 10;
const { setTimeout: realSetTimeout, performance: realPerformance } = globalThis;

// Standard streams open lazily; opened by the first line a test prints they would look like a leak.
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
