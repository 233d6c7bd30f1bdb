import { expect, test } from "vitest";
import { findingsIn } from "../../../../src/cli/doctor/checks.ts";
import { facts, NO_WORKSPACES } from "./samples.ts";

test("a full disk of the workspaces is an error that says what to do", () => {
  const found = findingsIn(facts({ workspaces: { ...NO_WORKSPACES, isFull: true } }));
  expect(found).toMatchObject([
    {
      check: "full_workspaces",
      severity: "error",
      what: "the disk of the workspaces is full",
      todo: expect.stringMatching(/^make room there/),
    },
  ]);
  expect(findingsIn(facts({ workspaces: NO_WORKSPACES }))).toEqual([]);
});
