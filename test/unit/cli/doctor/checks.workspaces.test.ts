import { expect, test } from "vitest";
import { findingsIn, isDeletable } from "../../../../src/cli/doctor/checks.ts";
import type { WorkspaceSight } from "../../../../src/cli/doctor/facts.ts";
import { facts, NO_WORKSPACES } from "./samples.ts";

const found = (more: Partial<WorkspaceSight> = {}): WorkspaceSight => ({
  path: "default/p/agents/a",
  tenant: "default",
  parentId: "p",
  agentId: "a",
  uid: "sa-000000000000000000000001",
  fate: "ended",
  isOld: false,
  ...more,
});
const checks = (...directories: WorkspaceSight[]) =>
  findingsIn(facts({ workspaces: { ...NO_WORKSPACES, directories } })).map(({ check }) => check);

test("workspaces of agents that live, or ended within 30 days, are in order", () => {
  expect(checks(found(), found({ fate: "live" }))).toEqual([]);
});

test("one that no agent of this installation has is orphaned, and old once nothing has touched it for 30 days", () => {
  expect(checks(found({ fate: "unknown" }))).toEqual(["orphaned_workspaces"]);
  expect(checks(found({ fate: "unknown", isOld: true }))).toEqual(["old_workspaces"]);
});

test("only an old one with a stamp whose agent is over may be deleted", () => {
  expect(isDeletable(found({ isOld: true }))).toBe(true);
  expect(isDeletable(found({ isOld: true, fate: "unknown" }))).toBe(true);
  expect(isDeletable(found({ isOld: true, fate: "live" }))).toBe(false);
  expect(isDeletable(found({ isOld: true, fate: "unknown", uid: undefined }))).toBe(false);
  expect(isDeletable(found())).toBe(false);
});

test("files that are missing are named, and nothing where there is no directory", () => {
  expect(findingsIn(facts({ workspaces: { ...NO_WORKSPACES, missing: ["p/a"] } }))).toMatchObject([
    { check: "missing_workspaces", names: ["p/a"] },
  ]);
  expect(findingsIn(facts({ workspaces: { ...NO_WORKSPACES, missing: ["p/a"], isThere: false } }))).toEqual(
    [],
  );
});
