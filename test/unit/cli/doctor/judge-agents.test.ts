import { describe, expect, test } from "vitest";
import { checksOf, judgeAgents } from "../../../../src/cli/doctor/judge-agents.ts";
import type { AgentSight } from "../../../../src/shared/redis/agent-sight.ts";
import { facts, NOW_MS, sight, workerSight } from "./samples.ts";

const GRACE_MS = 15_000;
const LONG_AGO = NOW_MS - GRACE_MS - 1;
const JUST_NOW = NOW_MS - GRACE_MS + 1_000;

const HEALTHY: Record<string, AgentSight> = {
  "queued and in time": sight(),
  "queued and a little late": sight({ record: { deadline: JUST_NOW }, isWakeAlive: false }),
  running: sight({ record: { status: "running", leaseUntil: NOW_MS + 8_000, deadline: NOW_MS + 8_000 } }),
  "running under a lease that was renewed after its deadline": sight({
    record: { status: "running", deadline: LONG_AGO, leaseUntil: NOW_MS + 1 },
  }),
  "running, given up, its wake out": sight({
    record: { status: "running", leaseUntil: 0 },
    isWakeAlive: true,
  }),
  idle: sight({
    record: { status: "idle", deadline: NOW_MS + 1, unansweredSince: 0 },
    lifeMs: 1,
    nextLookMs: NOW_MS,
  }),
  "idle, its life key put off": sight({ record: { status: "idle", deadline: LONG_AGO }, lifeMs: 60_000 }),
  waiting: sight({ record: { status: "waiting", deadline: NOW_MS + 3_600_000 } }),
  "of another status that only a newer version knows, in time": sight({ record: { status: "resting" } }),
  "ended, its place in the deadline set not yet looked at": sight({
    record: { status: "ended", isNamed: true },
    lifeMs: -2,
    inbox: 0,
    isCounted: false,
    nextLookMs: JUST_NOW,
  }),
  "ended and its name given away with the registry": sight({
    record: { status: "ended", isNamed: false },
    lifeMs: -2,
    inbox: 0,
    isCounted: false,
    nextLookMs: undefined,
  }),
  "ended while the deadline set keeps it for an hour": sight({
    record: { status: "ended" },
    lifeMs: -2,
    inbox: 0,
    isCounted: false,
    nextLookMs: NOW_MS + 3_600_000,
  }),
};

test.each(Object.entries(HEALTHY))("nothing is wrong with an agent that is %s", (_, seen) => {
  expect(checksOf(seen, GRACE_MS)).toEqual([]);
});

const SICK: Record<string, [AgentSight, string[]]> = {
  "queued, overdue, its wake lost": [
    sight({ record: { deadline: LONG_AGO }, isWakeAlive: false }),
    ["stale_queued"],
  ],
  "queued, overdue, its wake waiting": [
    sight({ record: { deadline: LONG_AGO }, isWakeAlive: true }),
    ["unswept"],
  ],
  "running, its lease long over": [
    sight({ record: { status: "running", deadline: LONG_AGO, leaseUntil: LONG_AGO }, isWakeAlive: true }),
    ["stale_running"],
  ],
  "running, given up, its new wake lost": [
    sight({ record: { status: "running", deadline: LONG_AGO, leaseUntil: 0 }, isWakeAlive: false }),
    ["stale_running"],
  ],
  "running, given up, overdue, its new wake waiting": [
    sight({ record: { status: "running", deadline: LONG_AGO, leaseUntil: 0 }, isWakeAlive: true }),
    ["unswept"],
  ],
  "waiting beyond its deadline": [
    sight({ record: { status: "waiting", deadline: LONG_AGO } }),
    ["stale_waiting"],
  ],
  "idle beyond its time": [
    sight({ record: { status: "idle", deadline: LONG_AGO, unansweredSince: 0 }, lifeMs: -2 }),
    ["overdue_idle"],
  ],
  "unanswered for too long, though its lease lives": [
    sight({
      record: {
        status: "running",
        leaseUntil: NOW_MS + 1,
        deadline: NOW_MS + 1,
        unansweredSince: LONG_AGO,
        maxAgeMs: 0,
      },
    }),
    ["overdue_age"],
  ],
  "not in the deadline set": [sight({ nextLookMs: undefined }), ["unwatched"]],
  "in the deadline set an hour too late": [sight({ nextLookMs: NOW_MS + 3_600_000 }), ["unwatched"]],
  "not counted and not named": [
    sight({ isCounted: false, record: { isNamed: false } }),
    ["uncounted", "unnamed"],
  ],
  "of a newer version, whatever else": [
    sight({ record: { version: 2, deadline: 1 }, isCounted: false, nextLookMs: undefined }),
    ["newer_records"],
  ],
  "ended and still counted": [
    sight({ record: { status: "ended" }, lifeMs: -2, inbox: 0, nextLookMs: undefined }),
    ["leaked_slots"],
  ],
  "gone, with everything left behind": [
    sight({ record: null, log: 3, steps: 2, nextLookMs: 1 }),
    ["leaked_slots", "orphaned_keys", "stray_members"],
  ],
  "gone, with a step list that nothing ends": [
    sight({ record: null, inbox: 0, lifeMs: -2, isCounted: false, steps: 1, nextLookMs: undefined }),
    ["orphaned_keys"],
  ],
};

test.each(Object.entries(SICK))("an agent that is %s is found so", (_, [seen, checks]) => {
  expect(checksOf(seen, GRACE_MS)).toEqual(checks);
});

describe("findings", () => {
  test("name agents by parent and id, those that are gone by uid, and count them all", () => {
    const many = Array.from({ length: 120 }, (_, n) => ({
      sight: sight({ record: { agentId: `worker_${n}` } }),
      checks: ["stale_queued" as const],
    }));
    const gone = {
      sight: sight({ record: null, address: { tenant: "acme", parentId: "p", uid: "sa-1" } }),
      checks: ["leaked_slots" as const],
    };
    const [stale, leaked] = judgeAgents(facts({ suspects: [...many, gone] }));
    expect(stale).toMatchObject({ check: "stale_queued", count: 120, severity: "error", fixable: true });
    expect(stale?.names).toHaveLength(100);
    expect(stale?.names[0]).toBe("planner/worker_0");
    expect(leaked).toMatchObject({ check: "leaked_slots", names: ["acme/p/sa-1"], count: 1 });
  });

  test("that nobody looks is said about workers that live, not where there are none", () => {
    const suspects = [{ sight: sight(), checks: ["unswept" as const] }];
    expect(judgeAgents(facts({ suspects, workers: [] }))).toEqual([]);
    expect(judgeAgents(facts({ suspects, workers: [workerSight()] }))).toMatchObject([{ check: "unswept" }]);
  });

  test("an examination that stopped says where", () => {
    expect(judgeAgents(facts({ reached: ["agents"] }))).toMatchObject([
      { check: "incomplete", severity: "warn", what: "the examination stopped after 100 agents" },
    ]);
  });
});
