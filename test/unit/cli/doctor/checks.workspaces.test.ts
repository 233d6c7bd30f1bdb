import { expect, test } from "vitest";
import { findingsIn } from "../../../../src/cli/doctor/checks.ts";
import type { WorkspaceSnapshot } from "../../../../src/cli/doctor/facts.ts";
import { facts, NO_WORKSPACES } from "./samples.ts";

const found = (more: Partial<WorkspaceSnapshot> = {}): WorkspaceSnapshot => ({
  path: "default/p/agents/a",
  tenant: "default",
  parentId: "p",
  agentId: "a",
  uid: "sa-000000000000000000000001",
  agentState: "ended",
  isDeletable: false,
  ...more,
});
const checks = (...directories: WorkspaceSnapshot[]) =>
  findingsIn(facts({ workspaces: { ...NO_WORKSPACES, directories } })).map(({ check }) => check);

test("workspaces of agents that live, or ended within 30 days, are in order", () => {
  expect(checks(found(), found({ agentState: "live" }))).toEqual([]);
});

test("one that no agent of this installation has is orphaned, and old once nothing has touched it for 30 days", () => {
  expect(checks(found({ agentState: "unknown" }))).toEqual(["orphaned_workspaces"]);
  expect(checks(found({ agentState: "unknown", isDeletable: true }))).toEqual(["old_workspaces"]);
});

test("files that are missing are named", () => {
  expect(findingsIn(facts({ workspaces: { ...NO_WORKSPACES, missing: ["p/a"] } }))).toMatchObject([
    { check: "missing_workspaces", names: ["p/a"] },
  ]);
});
