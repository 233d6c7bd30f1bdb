/**
 * Records the CPU time of each test file for the report on the slowest files. Vitest loads this before each test file, in
 * the file's own process.
 */
import { readFileSync } from "node:fs";
import { afterAll } from "vitest";

declare module "vitest" {
  interface TaskMeta {
    /** CPU time of the file in ms, with that of the child processes it has waited for. */
    cpuMs?: number;
  }
}

const before = spentMs();

// biome-ignore lint/correctness/noEmptyPattern: vitest reads the first parameter as a list of fixtures, and this hook uses none.
afterAll(({}, suite) => {
  suite.file.meta.cpuMs = spentMs() - before;
});

/** Returns the CPU time so far in ms. The children's part comes from /proc and is 0 on a system without it. */
function spentMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000 + childrenMs();
}

function childrenMs(): number {
  try {
    const stat = readFileSync("/proc/self/stat", "utf8");
    const [user, system] = stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .slice(13, 15);
    return (Number(user) + Number(system)) * 10;
  } catch {
    return 0;
  }
}
