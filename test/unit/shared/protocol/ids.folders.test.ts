/** Guarantee: on a disk that ignores case no two owners share a directory, and the doctor reads whose each directory is. */
import { expect, test } from "vitest";
import { agentSegments, OwnerFolder } from "../../../../src/shared/protocol/ids.ts";

const NAMES = ["Planner", "planner", "PLANNER", "pLANNER", "planner-7", "A.b_C", "a.b_c"];
const folderIn = (parentId: string) => agentSegments({ tenant: "acme", parentId }, "reviewer")[1] ?? "";

test("directories of parents, and of tenants, whose names differ only in capitals differ in more than those", () => {
  expect(new Set(NAMES.map((name) => folderIn(name).toLowerCase())).size).toBe(NAMES.length);
  expect(agentSegments({ tenant: "Acme", parentId: "A" }, "reviewer")).toEqual([
    "+acme",
    "+a",
    "agents",
    "reviewer",
  ]);
});

test("a directory tells the name that it was made from, and one that was made from none tells none", () => {
  expect(NAMES.map((name) => OwnerFolder.parse(folderIn(name)))).toEqual(NAMES);
  for (const other of ["Planner", "+", "a+", "+1", "++a", ".git", "lost found", ""])
    expect(OwnerFolder.safeParse(other).success, other).toBe(false);
});
