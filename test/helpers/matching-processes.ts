import { readFileSync } from "node:fs";

/** Returns the number of matching processes of this process, those that wait included; Linux only. */
export function countMatchingProcesses(): number {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").split(" ").filter(Boolean);
  return children.filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("matcher-process"))
    .length;
}
