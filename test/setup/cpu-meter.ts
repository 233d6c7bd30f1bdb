/**
 * Notes for each test file what it cost this process and the children it has waited for, for the report on the slowest.
 * Loaded before each test file, in the file's own process.
 */
import { readFileSync } from "node:fs";
import { afterAll } from "vitest";

declare module "vitest" {
  interface TaskMeta {
    /** CPU time of the file in ms: its own and that of the children that it waited for. */
    cpuMs?: number;
  }
}

const before = spentMs();

// biome-ignore lint/correctness/noEmptyPattern: vitest reads the first parameter as a list of fixtures; it is none of them.
afterAll(({}, suite) => {
  suite.file.meta.cpuMs = spentMs() - before;
});

/** CPU time so far in ms. The kernel alone knows what children cost; where it does not say, they count as nothing. */
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
