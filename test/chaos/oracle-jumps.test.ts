/** A clock that was set forth excuses what a live worker was just about to begin, and nothing else. */
import { expect, test } from "vitest";
import type { LedgerEntry } from "../../src/offline/server.ts";
import type { JournalLine } from "../helpers/tool-journal.ts";
import type { RecordedChange } from "./chronicle.ts";
import { type Evidence, lookUp } from "./evidence.ts";
import { judgeEffects } from "./oracle-effects.ts";
import { isHeldOverJump } from "./oracle-jumps.ts";
import { judgeTurns } from "./oracle-turns.ts";
import type { Fault } from "./strikes.ts";

const UID = "sa-1";
const claim = (at: number, epoch: number): RecordedChange => ({
  at,
  uid: UID,
  what: "claimed",
  epoch,
  worker: `w${epoch}`,
  crashesWithoutProgress: 0,
});
const TAKEN_AT = 1_000;
const happenings = [claim(10, 1), claim(TAKEN_AT, 2)];
const jump = (jumpMs: number, at = 900): Fault => ({ kind: "clock", at, endedAt: at + 5, jumpMs, hit: [] });

const began = (at: number, worker: string): JournalLine => {
  return { at, pid: 1, worker, uid: UID, run: 1, call: "toolu_1", name: "look", what: "began" };
};
const bought = (began_at: number): LedgerEntry =>
  ({ began_at, at: began_at + 5, idempotency_key: `${UID}.1.1`, status: "served" }) as LedgerEntry;

/** What is wrong where worker 1 begins a tool and a call at `at`, though worker 2 has had the run since `takenAt`. */
function judge(at: number, faults: readonly Fault[], takenAt = TAKEN_AT): string[] {
  const load = { seen: [], told: [], complaints: [], repeated: 0 };
  const nothing = { stories: [], undisturbed: new Map(), staleAsks: [], spent: [], collapses: [] };
  const journal = [began(at, "w1"), began(at + 1, "w2")];
  const evidence: Evidence = {
    ...{
      load,
      faults,
      happenings: [claim(10, 1), claim(takenAt, 2)],
      ledger: [bought(at)],
      journal,
      workspaces: new Map(),
    },
    ...nothing,
  };
  const lookup = lookUp(evidence);
  return [...judgeEffects(evidence, lookup), ...judgeTurns(evidence, lookup)].map(({ broken }) => broken);
}

const STALE = [
  "no tool call is made twice under one claim",
  "a worker that has lost a run starts no tool of it",
  "a worker that has lost a run buys nothing for it",
];

test("what the clock's jump took from a worker in the middle of a step is no flaw", () => {
  expect(judge(1_005, [])).toEqual(STALE);
  expect(judge(1_005, [jump(5_000)])).toEqual([]);
});

test.for<[what: string, at: number, faults: Fault[]]>([
  ["a clock that was set back", 1_005, [jump(-5_000)]],
  ["a jump before the worker had the run", 1_005, [jump(5_000, 1)]],
  ["a jump after the run was taken", 1_005, [jump(5_000, 1_001)]],
  ["a start long after", 2_001, [jump(5_000)]],
])("%s excuses nothing", ([, at, faults]) => {
  expect(judge(at, faults)).toEqual(STALE);
});

test("a jump long before the run was taken excuses nothing", () => {
  expect(judge(13_005, [jump(5_000, 1_000)], 13_000)).toEqual([]);
  expect(judge(14_005, [jump(5_000, 1_000)], 14_000)).toEqual(STALE);
});

test("a lease over which the clock jumped, either way, is known, up to the next claim", () => {
  const { claims } = lookUp({ happenings });
  const isOver = (faults: Fault[], epoch: number) =>
    isHeldOverJump({ faults }, { claims }, { uid: UID, epoch });
  expect(isOver([jump(5_000)], 1)).toBe(true);
  expect(isOver([jump(-5_000)], 1)).toBe(true);
  expect(isOver([jump(5_000)], 2)).toBe(false);
  expect(isOver([jump(5_000, 1_100)], 1)).toBe(false);
  expect(isOver([jump(5_000, 1_100)], 2)).toBe(true);
  expect(isOver([{ kind: "kill", at: 900, endedAt: 905, hit: [] }], 1)).toBe(false);
});
