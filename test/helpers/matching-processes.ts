import { readFileSync } from "node:fs";

/** Returns the ids of a process' matching processes, those that wait included; Linux only. */
export function matchingProcesses(owner: number = process.pid): string[] {
  const children = readFileSync(`/proc/${owner}/task/${owner}/children`, "utf8").split(" ").filter(Boolean);
  return children.filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("matcher-process"));
}
