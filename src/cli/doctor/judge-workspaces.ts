/** What is wrong with the workspaces of this machine, from what was seen of them. Pure. */
import { findingOf } from "./checks.ts";
import type { WorkspaceFacts, WorkspaceSight } from "./facts.ts";
import type { Finding } from "./report.ts";

/** Whether `--fix` may delete it: nothing has changed in it for 30 days, and the agent of its stamp is over. */
export function isDeletable({ uid, fate, isOld }: WorkspaceSight): boolean {
  return uid !== undefined && fate !== "live" && isOld;
}

/** What was found. */
export function judgeWorkspaces({ isThere, directories, missing }: WorkspaceFacts): Finding[] {
  if (!isThere) return [];
  const pathsWhere = (condition: (directory: WorkspaceSight) => boolean) =>
    directories.filter(condition).map(({ path }) => path);
  return [
    ...findingOf("missing_workspaces", missing),
    ...findingOf(
      "orphaned_workspaces",
      pathsWhere((each) => each.fate === "unknown" && !isDeletable(each)),
    ),
    ...findingOf("old_workspaces", pathsWhere(isDeletable)),
  ];
}
