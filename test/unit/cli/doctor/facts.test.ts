import { expect, test } from "vitest";
import { troublesOf } from "../../../../src/cli/doctor/facts.ts";
import type { AgentSnapshot } from "../../../../src/shared/redis/inspection.ts";
import { NOW_MS, snapshot } from "./samples.ts";

const GRACE_MS = 15_000;
const LONG_AGO = NOW_MS - GRACE_MS - 1;
const JUST_NOW = NOW_MS - GRACE_MS + 1_000;

const HEALTHY: Record<string, AgentSnapshot> = {
  "queued and in time": snapshot(),
  "queued for long, its next check in time": snapshot({
    record: { deadline: LONG_AGO - 600_000 },
    nextCheckMs: NOW_MS + 60_000,
  }),
  "queued and a little late": snapshot({ record: { deadline: JUST_NOW }, isWakeAlive: false }),
  running: snapshot({ record: { status: "running", leaseUntil: NOW_MS + 8_000, deadline: NOW_MS + 8_000 } }),
  "running under a lease that was renewed after its deadline": snapshot({
    record: { status: "running", deadline: LONG_AGO, leaseUntil: NOW_MS + 1 },
  }),
  "running, given up, its wake out": snapshot({
    record: { status: "running", leaseUntil: 0 },
    isWakeAlive: true,
  }),
  idle: snapshot({
    record: { status: "idle", deadline: NOW_MS + 1, tooOldAt: 0 },
    lifeMs: 1,
    nextCheckMs: NOW_MS,
  }),
  "idle, its life key put off": snapshot({ record: { status: "idle", deadline: LONG_AGO }, lifeMs: 60_000 }),
  waiting: snapshot({ record: { status: "waiting", deadline: NOW_MS + 3_600_000 } }),
  "of another status that only a newer version knows, in time": snapshot({ record: { status: "resting" } }),
  "ended, its place in the deadline set not yet looked at": snapshot({
    record: { status: "ended", isNamed: true },
    lifeMs: -2,
    inbox: 0,
    isCounted: false,
    nextCheckMs: JUST_NOW,
  }),
  "ended and its name given away with the registry": snapshot({
    record: { status: "ended", isNamed: false },
    lifeMs: -2,
    inbox: 0,
    isCounted: false,
    nextCheckMs: undefined,
  }),
  "ended while the deadline set keeps it for an hour": snapshot({
    record: { status: "ended" },
    lifeMs: -2,
    inbox: 0,
    isCounted: false,
    nextCheckMs: NOW_MS + 3_600_000,
  }),
};

test.each(Object.entries(HEALTHY))("nothing is wrong with an agent that is %s", (_, seen) => {
  expect(troublesOf(seen, GRACE_MS)).toEqual([]);
});

const SICK: Record<string, [AgentSnapshot, string[]]> = {
  "queued, overdue, its wake lost": [
    snapshot({ record: { deadline: LONG_AGO }, nextCheckMs: LONG_AGO, isWakeAlive: false }),
    ["stale_queued"],
  ],
  "queued, overdue, and only hidden by a sweeper that cannot check it": [
    snapshot({ record: { deadline: LONG_AGO }, nextCheckMs: NOW_MS + 900, isWakeAlive: false }),
    ["stale_queued"],
  ],
  "queued, overdue, its wake waiting": [
    snapshot({ record: { deadline: LONG_AGO }, nextCheckMs: LONG_AGO, isWakeAlive: true }),
    ["unswept"],
  ],
  "running, its lease long over": [
    snapshot({ record: { status: "running", deadline: LONG_AGO, leaseUntil: LONG_AGO }, isWakeAlive: true }),
    ["stale_running"],
  ],
  "running, given up, its new wake lost": [
    snapshot({
      record: { status: "running", deadline: LONG_AGO, leaseUntil: 0 },
      nextCheckMs: LONG_AGO,
      isWakeAlive: false,
    }),
    ["stale_running"],
  ],
  "running, given up, overdue, its new wake waiting": [
    snapshot({
      record: { status: "running", deadline: LONG_AGO, leaseUntil: 0 },
      nextCheckMs: LONG_AGO,
      isWakeAlive: true,
    }),
    ["unswept"],
  ],
  "waiting beyond its deadline": [
    snapshot({ record: { status: "waiting", deadline: LONG_AGO } }),
    ["stale_waiting"],
  ],
  "idle beyond its time": [
    snapshot({ record: { status: "idle", deadline: LONG_AGO, tooOldAt: 0 }, lifeMs: -2 }),
    ["overdue_idle"],
  ],
  "unanswered for too long, though its lease lives": [
    snapshot({
      record: {
        status: "running",
        leaseUntil: NOW_MS + 1,
        deadline: NOW_MS + 1,
        tooOldAt: LONG_AGO,
      },
    }),
    ["overdue_age"],
  ],
  "not in the deadline set": [snapshot({ nextCheckMs: undefined }), ["deadline_missing"]],
  "in the deadline set an hour too late": [
    snapshot({ nextCheckMs: NOW_MS + 3_600_000 }),
    ["deadline_missing"],
  ],
  "not counted and not named": [
    snapshot({ isCounted: false, record: { isNamed: false } }),
    ["uncounted", "unnamed"],
  ],
  "of a newer version, whatever else": [
    snapshot({ record: { version: 2, deadline: 1 }, isCounted: false, nextCheckMs: undefined }),
    ["newer_records"],
  ],
  "ended and still counted": [
    snapshot({ record: { status: "ended" }, lifeMs: -2, inbox: 0, nextCheckMs: undefined }),
    ["leaked_slots"],
  ],
  "gone, with everything left behind": [
    snapshot({ record: null, log: 3, timeline: 2, nextCheckMs: 1 }),
    ["leaked_slots", "orphaned_keys", "stray_members"],
  ],
  "gone, with a step list that nothing ends": [
    snapshot({ record: null, inbox: 0, lifeMs: -2, isCounted: false, timeline: 1, nextCheckMs: undefined }),
    ["orphaned_keys"],
  ],
};

test.each(Object.entries(SICK))("an agent that is %s is found so", (_, [seen, checks]) => {
  expect(troublesOf(seen, GRACE_MS)).toEqual(checks);
});

test("a run that broke off twice in a row is found, one that broke off once is not", () => {
  expect(troublesOf(snapshot({ record: { breaks: 1 } }), GRACE_MS)).toEqual([]);
  expect(troublesOf(snapshot({ record: { breaks: 2 } }), GRACE_MS)).toEqual(["breaking_off"]);
});
