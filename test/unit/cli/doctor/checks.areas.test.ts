import { expect, test } from "vitest";
import { diagnose, findingsIn } from "../../../../src/cli/doctor/checks.ts";
import { facts, snapshot } from "./samples.ts";

test("an area with an error behind a warning is one with an error", () => {
  const suspects = [{ snapshot: snapshot(), troubles: ["overdue_idle" as const, "uncounted" as const] }];
  const { areas } = diagnose(facts({ suspects }));
  expect(areas.find(({ area }) => area === "agents")?.severity).toBe("error");
});

test("a running agent waits for a worker, too, where none is live", () => {
  const agents = [snapshot({ record: { status: "running" } })];
  expect(findingsIn(facts({ workers: [], agents }))).toMatchObject([
    { check: "work_without_workers", severity: "error", count: 1 },
  ]);
});

test("each parent whose webhook fails is named with the reason, or that no API process pushes", () => {
  const each = { unacked: 2, oldestMs: 120_000 };
  const unpushed = ["a", "b"].map((parentId, n) => ({
    parent: { tenant: "default", parentId },
    ...each,
    problem: n === 0 ? "it answered 500" : undefined,
  }));
  expect(findingsIn(facts({ unpushed }))).toMatchObject([
    {
      check: "webhooks",
      names: ["a (2, oldest 2 min: it answered 500)", "b (2, oldest 2 min: no API process pushes)"],
    },
  ]);
});

test("each key of a wrong type is named with its type and the right one", () => {
  const mistyped = ["x", "y"].map((key) => ({ key, type: "string", expected: "hash" }));
  expect(findingsIn(facts({ mistyped }))).toMatchObject([
    {
      check: "wrong_types",
      severity: "error",
      names: ["x (string, must be hash)", "y (string, must be hash)"],
    },
  ]);
});

test("members of the deadline set are found by the agents that they name, and where they name none", () => {
  const suspects = [{ snapshot: snapshot({ record: null }), troubles: ["stray_members" as const] }];
  expect(findingsIn(facts({ suspects, strayMembers: ["no address"] }))).toMatchObject([
    { check: "stray_members", count: 2, names: ["planner/sa-000000000000000000000001", "no address"] },
  ]);
});
