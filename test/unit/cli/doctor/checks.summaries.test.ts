/** Guarantee: the doctor's lines say what stands in the facts, and name what differs. */
import { describe, expect, test } from "vitest";
import { diagnose, findingsIn } from "../../../../src/cli/doctor/checks.ts";
import type { Facts } from "../../../../src/cli/doctor/facts.ts";
import { facts, NOW_MS, snapshot, workerSight } from "./samples.ts";

const [SERVER] = facts().servers;
if (!SERVER) throw new Error("The samples have no server.");

const lineOf = (area: string, more: Partial<Facts>) =>
  diagnose(facts(more)).areas.find((each) => each.area === area)?.summary;

describe("Redis", () => {
  test.each([
    ["AOF everysec", { aof: "on" as const }],
    ["no AOF", { aof: "off" as const }],
    ["AOF unknown", { aof: "unknown" as const }],
  ])("is said to keep its data by %s", (disk, server) => {
    expect(lineOf("redis", { servers: [{ ...SERVER, ...server }] })).toBe(
      `redis 7.0.15 · ${disk} · noeviction · 5 MB in use`,
    );
  });

  test("is counted in nodes, and its memory against its limit", () => {
    const servers = [{ ...SERVER, maxMemoryBytes: 50 * 1_048_576 }, SERVER];
    expect(lineOf("redis", { servers })).toBe(
      "redis 7.0.15 · 2 nodes · AOF everysec · noeviction · 5 MB of 50 MB in use",
    );
    expect(lineOf("redis", { servers: [] })).toBe("unknown");
  });

  test("is not called nearly full where a node of it refuses writes already", () => {
    const full = { ...SERVER, usedMemoryBytes: 95, maxMemoryBytes: 100 };
    const refusing = { ...SERVER, troubles: ["It refuses writes."] };
    const checksOf = (servers: Facts["servers"]) => findingsIn(facts({ servers })).map(({ check }) => check);
    expect(checksOf([full, SERVER])).toEqual(["redis_memory"]);
    expect(checksOf([full, refusing])).toEqual(["redis_trouble"]);
  });

  test("that cannot be used is an error on every machine, one that is unsafe in production alone", () => {
    const problems = (["unusable", "unsafe"] as const).map((severity) => ({ sentence: severity, severity }));
    const servers = [{ ...SERVER, problems }];
    const severities = (isProduction: boolean) =>
      findingsIn(facts({ servers, isProduction })).map(({ what, severity }) => [what, severity]);
    expect(severities(false)).toEqual([
      ["unusable", "error"],
      ["unsafe", "warn"],
    ]);
    expect(severities(true)).toEqual([
      ["unusable", "error"],
      ["unsafe", "error"],
    ]);
  });
});

describe("workers", () => {
  const wakes = { waiting: 1_200, active: 3, delayed: 34, isPaused: false, next: undefined };

  test("are counted with their hosts and slots, and without any the wakes that wait for one", () => {
    const workers = [workerSight({ host: "a", concurrency: 2 }), workerSight({ host: "b", concurrency: 3 })];
    expect(lineOf("workers", { workers, wakes })).toBe(
      "2 live on 2 hosts · 3 of 5 slots taken · 1,200 waiting",
    );
    expect(lineOf("workers", { workers: [], wakes })).toBe("none live · 1,234 wakes waiting");
  });

  test("of which one offers bash hide why this machine would not", () => {
    const workers = [workerSight({ tools: ["bash"] }), workerSight({ tools: [] })];
    expect(lineOf("workers", { workers, bash: "No sandbox." })).not.toContain("No sandbox");
    expect(lineOf("workers", { workers: [workerSight({ tools: [] })], bash: "No sandbox." })).toMatch(
      / · No sandbox$/,
    );
  });

  test("that announce no model differ from none", () => {
    const workers = [workerSight({ model: undefined }), workerSight({ model: "a" })];
    expect(findingsIn(facts({ workers }))).toEqual([]);
    const differing = [workerSight({ model: "b" }), ...workers];
    expect(findingsIn(facts({ workers: differing }))).toMatchObject([
      { check: "differing_models", names: ["a", "b"] },
    ]);
  });

  test("have a clock that is off by more than five seconds; this host's is the one that was read here", () => {
    const skewed = (host: string, ms: number | undefined) => ({
      ...workerSight({ host, now: ms === undefined ? undefined : NOW_MS + ms }),
      announcedAtMs: NOW_MS,
    });
    const workers = [
      skewed("ahead", 6_000),
      skewed("behind", -7_000),
      skewed("just", 5_000),
      skewed("silent", undefined),
      skewed("here", 9_000),
    ];
    expect(findingsIn(facts({ workers }))).toMatchObject([
      { check: "clock_skew", names: ["ahead 6 s ahead", "behind 7 s behind"] },
    ]);
  });
});

test("agents are counted by their status, an ended one that has kept its last as ended", () => {
  const [idle, queued, running, waiting] = (["idle", "queued", "running", "waiting"] as const).map((status) =>
    snapshot({ record: { status } }),
  );
  const gone = snapshot({ record: null });
  const agents = [idle, queued, queued, running, waiting, gone].filter((each) => each !== undefined);
  expect(lineOf("agents", { agents })).toBe("5 live · 1 idle · 2 queued · 1 running · 1 waiting · 1 ended");
});

test("a pause is told with its reason, or without one", () => {
  const namesOf = (reason?: string) =>
    findingsIn(facts({ pause: { at: "2026-11-01T00:00:00Z", reason } }))[0]?.names;
  expect(namesOf("budget")).toEqual(["since 2026-11-01T00:00:00Z: budget"]);
  expect(namesOf()).toEqual(["since 2026-11-01T00:00:00Z"]);
});

test("refused intake entries are a finding where there is one", () => {
  const countsOf = (count: number) =>
    findingsIn(facts({ refusedEntries: { count, newest: [] } })).map((each) => [each.check, each.count]);
  expect([countsOf(0), countsOf(3)]).toEqual([[], [["refused_entries", 3]]]);
});

test("of a budget the share is rounded down, and one that cannot be read is called so", () => {
  const budgets = [
    { name: "parent a", used: 0.999 },
    { name: "parent b", used: Number.POSITIVE_INFINITY },
  ];
  expect(findingsIn(facts({ budgets }))).toMatchObject([
    { check: "budgets", names: ["parent b (unreadable)", "parent a (99 %)"] },
  ]);
});

test("errors come first, in the order of the table", () => {
  const limiters = [
    { name: "slow", state: "slowed" as const, reason: "overloaded", holders: 0, waiting: 0 },
    { name: "shut", state: "denied" as const, reason: "billing", holders: 0, waiting: 0 },
  ];
  const wakes = { waiting: 2, active: 0, delayed: 0, isPaused: true, next: undefined };
  const refusedEntries = { count: 1, newest: [] };
  const { findings } = diagnose(facts({ limiters, wakes, refusedEntries }));
  expect(findings.map(({ check }) => check)).toEqual([
    "queue_paused",
    "provider_denied",
    "refused_entries",
    "provider_closed",
  ]);
  expect(findings.map(({ fixable }) => fixable)).toEqual([false, false, false, false]);
});
