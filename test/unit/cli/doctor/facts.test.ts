import { expect, test } from "vitest";
import { troublesOf } from "../../../../src/cli/doctor/facts.ts";
import type { AgentSight } from "../../../../src/shared/redis/inspection.ts";
import { NOW_MS, sight } from "./samples.ts";

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
  expect(troublesOf(seen, GRACE_MS)).toEqual([]);
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
    sight({ record: null, log: 3, timeline: 2, nextLookMs: 1 }),
    ["leaked_slots", "orphaned_keys", "stray_members"],
  ],
  "gone, with a step list that nothing ends": [
    sight({ record: null, inbox: 0, lifeMs: -2, isCounted: false, timeline: 1, nextLookMs: undefined }),
    ["orphaned_keys"],
  ],
};

test.each(Object.entries(SICK))("an agent that is %s is found so", (_, [seen, checks]) => {
  expect(troublesOf(seen, GRACE_MS)).toEqual(checks);
});

test("a run that broke off twice in a row is found, one that broke off once is not", () => {
  expect(troublesOf(sight({ record: { breaks: 1 } }), GRACE_MS)).toEqual([]);
  expect(troublesOf(sight({ record: { breaks: 2 } }), GRACE_MS)).toEqual(["breaking_off"]);
});
