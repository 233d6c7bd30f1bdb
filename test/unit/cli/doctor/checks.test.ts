import { describe, expect, test } from "vitest";
import { findingsIn } from "../../../../src/cli/doctor/checks.ts";
import type { Facts } from "../../../../src/cli/doctor/facts.ts";
import { facts, NOW_MS, snapshot, workerSight } from "./samples.ts";

const HOUR_MS = 3_600_000;
const checks = (found: { check: string; severity: string }[]) =>
  found.map(({ check, severity }) => `${check} ${severity}`);
const server = (more: Partial<Facts["servers"][number]>) =>
  facts().servers.map((healthy) => ({ ...healthy, ...more }));

test("an installation in order gives no finding", () => {
  expect(findingsIn(facts())).toEqual([]);
});

test("what may lose accepted work is an error in production and a warning elsewhere", () => {
  const servers = server({
    problems: [
      { severity: "unusable", sentence: "Too old." },
      { severity: "unsafe", sentence: "No AOF." },
      { severity: "warning", sentence: "Says little." },
    ],
  });
  const severities = (isProduction: boolean) =>
    findingsIn(facts({ servers, isProduction })).map(({ what, severity }) => [what, severity]);
  expect(severities(false)).toEqual([
    ["Too old.", "error"],
    ["No AOF.", "warn"],
    ["Says little.", "warn"],
  ]);
  expect(severities(true)[1]).toEqual(["No AOF.", "error"]);
});

test("the same problem of several nodes is said once", () => {
  const servers = [...server({ problems: [{ severity: "unsafe", sentence: "No AOF." }] })];
  expect(findingsIn(facts({ servers: [...servers, ...servers, ...servers] }))).toHaveLength(1);
});

test("a server is nearly full at nine tenths of its limit, and full is said by itself", () => {
  const at = (usedMemoryBytes: number, troubles: string[] = []) =>
    checks(findingsIn(facts({ servers: server({ usedMemoryBytes, maxMemoryBytes: 1_000, troubles }) })));
  expect(at(890)).toEqual([]);
  expect(at(900)).toEqual(["redis_memory warn"]);
  expect(at(1_000, ["Redis has no memory left"])).toEqual(["redis_trouble error"]);
});

test("no worker is a warning where nothing waits, and an error where agents do", () => {
  expect(checks(findingsIn(facts({ workers: [] })))).toEqual(["no_workers warn"]);
  const agents = [
    snapshot(),
    snapshot({ record: { status: "idle" } }),
    snapshot({ record: { status: "running" } }),
  ];
  const [found] = findingsIn(facts({ workers: [], agents }));
  expect(found).toMatchObject({ check: "work_without_workers", severity: "error", count: 2, names: [] });
});

test("a budget is told from four fifths on, the one that is used most first", () => {
  const at = (...used: number[]) =>
    findingsIn(facts({ budgets: used.map((share, i) => ({ name: `parent p${i}`, used: share })) }));
  expect(at(0, 0.79)).toEqual([]);
  const [found] = at(0.8, 1.25);
  expect(found).toMatchObject({ check: "budgets", severity: "warn", count: 2 });
  expect(found?.names).toEqual(["parent p1 (125 %)", "parent p0 (80 %)"]);
});

test("wakes that wait beside free slots are an error", () => {
  const wakes = { waiting: 7, active: 0, delayed: 0, isPaused: false, next: "x" };
  const [stuck] = findingsIn(facts({ wakes, areWakesStuck: true }));
  expect(stuck).toMatchObject({ check: "wakes_not_taken", severity: "error", count: 7 });
});

test("a pause is a warning with the operator's word; a queue paused behind its back is an error", () => {
  const wakes = { waiting: 7, active: 0, delayed: 0, isPaused: true, next: "x" };
  const pause = { at: "2026-11-21T00:00:00.000Z", reason: "too dear" };
  expect(findingsIn(facts({ wakes, pause }))).toMatchObject([
    { check: "paused", severity: "warn", names: ["since 2026-11-21T00:00:00.000Z: too dear"] },
  ]);
  expect(checks(findingsIn(facts({ wakes })))).toEqual(["queue_paused error"]);
});

test("a limiter that refuses the credential is an error, one that is closed or slowed a warning", () => {
  const limiter = { name: "anthropic/m", reason: "rate_limited", limit: 1, holders: 0, waiting: 3 };
  const limiters = [
    { ...limiter, state: "denied" as const, reason: "authentication" },
    { ...limiter, name: "b", state: "closed" as const, until: "2026-11-21T00:00:00.000Z" },
    { ...limiter, name: "c", state: "slowed" as const },
  ];
  expect(findingsIn(facts({ limiters })).map(({ severity, names }) => [severity, names])).toEqual([
    ["error", ["anthropic/m denied (authentication)"]],
    ["warn", ["b closed (rate_limited) until 2026-11-21T00:00:00.000Z", "c slowed (rate_limited)"]],
  ]);
});

test("workers that differ are named by what they differ in", () => {
  const workers = [
    workerSight(),
    workerSight({ id: "b", version: "0.2.0", tools: ["grep", "look_up"], model: "n" }),
  ];
  expect(findingsIn(facts({ workers })).map(({ check, names }) => [check, names])).toEqual([
    ["mixed_versions", ["0.1.0", "0.2.0"]],
    ["differing_tools", ["look_up"]],
    ["differing_models", ["m", "n"]],
  ]);
});

test("clocks that are off by more than five seconds are named a host, in words", () => {
  const off = (host: string, ms: number) => ({ ...workerSight({ host, now: NOW_MS - 1_000 + ms }) });
  const workers = [
    off("near", 4_900),
    off("fast", 7_000),
    off("slow", -2 * HOUR_MS),
    off("slow", -2 * HOUR_MS),
  ];
  const [found] = findingsIn(facts({ workers, hostNowMs: NOW_MS + 60_000 }));
  expect(found?.names).toEqual(["here 1 min ahead", "fast 7 s ahead", "slow 2 h behind"]);
  expect(findingsIn(facts({ workers: [workerSight({ now: undefined })] }))).toEqual([]);
});

test("intake entries of which no parent was told are a warning with their ids and their number", () => {
  const refusedEntries = { count: 1_000, newest: ["2-0", "1-0"] };
  const [found] = findingsIn(facts({ refusedEntries }));
  expect(found).toMatchObject({
    check: "refused_entries",
    severity: "warn",
    count: 1_000,
    names: ["2-0", "1-0"],
  });
  expect(found?.what).toBe("1,000 intake entries failed, and no parent could be told");
});

test("old replies are a warning, and an error when they will be gone within a day", () => {
  const old = (parentId: string, oldestMs: number) => ({
    parent: { tenant: "default", parentId },
    unacked: 2,
    oldestMs,
  });
  const oldReplies = [old("a", 2 * HOUR_MS), old("b", 160 * HOUR_MS), old("c", 90 * HOUR_MS)];
  expect(findingsIn(facts({ oldReplies })).map(({ severity, names }) => [severity, names])).toEqual([
    ["error", ["b (2, oldest 6 d)"]],
    ["warn", ["c (2, oldest 3 d)", "a (2, oldest 2 h)"]],
  ]);
});

describe("findings", () => {
  test("name agents by parent and id, those that are gone by uid, and count them all", () => {
    const many = Array.from({ length: 120 }, (_, n) => ({
      snapshot: snapshot({ record: { agentId: `worker_${n}` } }),
      troubles: ["stale_queued" as const],
    }));
    const gone = {
      snapshot: snapshot({ record: null, address: { tenant: "acme", parentId: "p", uid: "sa-1" } }),
      troubles: ["leaked_slots" as const],
    };
    const [stale, leaked] = findingsIn(facts({ suspects: [...many, gone] }));
    expect(stale).toMatchObject({ check: "stale_queued", count: 120, severity: "error", fixable: true });
    expect(stale?.names).toHaveLength(100);
    expect(stale?.names[0]).toBe("planner/worker_0");
    expect(leaked).toMatchObject({ check: "leaked_slots", names: ["acme/p/sa-1"], count: 1 });
  });

  test("that nobody looks is said about workers that live, not where there are none", () => {
    const suspects = [{ snapshot: snapshot(), troubles: ["unswept" as const] }];
    expect(findingsIn(facts({ suspects, workers: [] }))).toMatchObject([{ check: "no_workers" }]);
    expect(findingsIn(facts({ suspects, workers: [workerSight()] }))).toMatchObject([{ check: "unswept" }]);
  });

  test("an examination that stopped says where", () => {
    expect(findingsIn(facts({ reached: ["agents"] }))).toMatchObject([
      { check: "incomplete", severity: "warn", what: "the examination stopped after 100 agents" },
    ]);
  });
});
