import { expect, test } from "vitest";
import { agentName, ownerName, troublesOf } from "../../../../src/cli/doctor/facts.ts";
import type { RecordSnapshot } from "../../../../src/shared/redis/inspection.ts";
import { NOW_MS, snapshot } from "./samples.ts";

const GRACE_MS = 15_000;
const late = (ms: number, record: Partial<RecordSnapshot>) =>
  troublesOf(snapshot({ record, nextCheckMs: NOW_MS - ms, isWakeAlive: false, lifeMs: -1 }), GRACE_MS);

test.each([
  ["queued", "stale_queued"],
  ["waiting", "stale_waiting"],
  ["running", "stale_running"],
] as const)(
  "the check of an agent that is %s may be as late as the grace, and no later",
  (status, trouble) => {
    const at = (ms: number) => late(ms, { status, deadline: NOW_MS - ms });
    expect(at(GRACE_MS)).toEqual([]);
    expect(at(GRACE_MS + 1)).toEqual([trouble]);
  },
);

test("an answer may be as late as the grace, and no later", () => {
  const at = (ms: number) =>
    troublesOf(snapshot({ record: { tooOldAt: NOW_MS - ms, deadline: NOW_MS + 1 } }), GRACE_MS);
  expect(at(GRACE_MS)).toEqual([]);
  expect(at(GRACE_MS + 1)).toEqual(["overdue_age"]);
});

test("a parent is named with its tenant unless that is the default one, an agent by its id, else by its uid", () => {
  const planner = { tenant: "default", parentId: "planner" };
  expect([ownerName(planner), ownerName({ ...planner, tenant: "acme" })]).toEqual([
    "planner",
    "acme/planner",
  ]);
  const address = { ...planner, uid: "sa-1" };
  expect([agentName(address, "worker"), agentName(address)]).toEqual(["planner/worker", "planner/sa-1"]);
});
