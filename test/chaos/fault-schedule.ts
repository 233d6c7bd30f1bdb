/**
 * Draws the faults of a chaos run from its seed, and controls the pace at which they strike. Pure, except that the pace
 * counts runs and strikes.
 *
 * 1. Faults are spread over the work, not over time: on a slow machine they come later, not more densely.
 * 2. Runs wait for overdue faults, and the last runs wait for the last faults, so that these still find runs to hit. If all
 *    permitted runs are over before a fault finds one, one more run at a time may begin.
 */
import { latch } from "../helpers/latch.ts";
import { seeded } from "../helpers/seeded.ts";

/** Names of faults on the command line. `swallow` is a permanent state of all proxies; each of the others strikes once. */
export const FAULTS = ["kill", "stop", "partition", "swallow", "redis", "clock"] as const;
/** See {@link FAULTS}. */
export type FaultName = (typeof FAULTS)[number];

/** Kind of a strike; `refuse` and `blackhole` are the two kinds of partition. */
export type StrikeKind = "kill" | "stop" | "refuse" | "blackhole" | "redis" | "clock";

/** Returns whether the fault strikes Redis, and so all workers alike. */
export function isOfRedis(kind: StrikeKind): boolean {
  return kind === "redis" || kind === "clock";
}

/** A planned fault. */
export interface PlannedStrike {
  kind: StrikeKind;
  /** Share of finished runs (0–1) at which it is due. */
  dueAt: number;
  /** Number in [0, 1) that selects one of the busy workers. */
  aim: number;
  /** Delay (ms) of the strike after it is due, so that it hits any moment of a turn. */
  delayMs: number;
  /** Downtime of a killed Redis, as a multiple of the lease. */
  outage: number;
  /** Jump of Redis' clock, as a multiple of the lease: forward, or back if negative. */
  jump: number;
}

/** Kills per stop: a quarter of all kills and stops are stops. */
const KILLS_A_STOP = 3;
const KILLS_A_PARTITION = 5;
const KILLS_A_RESTART = 20;
const KILLS_A_JUMP = 10;
/** Minimum number of jumps: one forward, one back. */
const FEWEST_JUMPS = 2;
const SHORTEST_JUMP = 0.1;
const LONGEST_JUMP = 1.5;
/** Share of finished runs at which the last fault is due at the latest. */
const LAST_DUE_AT = 0.9;
const LONGEST_DELAY_MS = 400;

/** Returns the strikes of a chaos run with `kills` SIGKILLs, in order. */
export function planStrikes(seed: number, kills: number, faults: ReadonlySet<FaultName>): PlannedStrike[] {
  const chance = seeded(seed ^ 0x5eed);
  const of = (name: FaultName, kind: StrikeKind, count: number): StrikeKind[] =>
    faults.has(name) ? Array.from({ length: count }, () => kind) : [];
  const ofEachPartition = Math.ceil(kills / KILLS_A_PARTITION / 2);
  const kinds = chance.shuffled([
    ...of("kill", "kill", kills),
    ...of("stop", "stop", Math.ceil(kills / KILLS_A_STOP)),
    ...of("partition", "refuse", ofEachPartition),
    ...of("partition", "blackhole", ofEachPartition),
    ...of("redis", "redis", Math.ceil(kills / KILLS_A_RESTART)),
    ...of("clock", "clock", Math.max(FEWEST_JUMPS, Math.ceil(kills / KILLS_A_JUMP))),
  ]);
  let isForth = false;
  const drawJump = () => {
    isForth = !isForth;
    const length = SHORTEST_JUMP + chance.next() * (LONGEST_JUMP - SHORTEST_JUMP);
    return isForth ? length : -length;
  };
  return kinds.map((kind, i) => ({
    kind,
    dueAt: ((i + chance.next()) / kinds.length) * LAST_DUE_AT,
    aim: chance.next(),
    delayMs: chance.between(0, LONGEST_DELAY_MS),
    outage: chance.next() * 1.5,
    jump: kind === "clock" ? drawJump() : 0,
  }));
}

/** Synchronizes runs and faults. */
export interface Pace {
  /** Resolves when run number `run` may begin. */
  mayBegin(run: number): Promise<void>;
  /** Counts a finished run. */
  runOver(): void;
  /** Resolves when this share of the runs is over, or when no more runs will end. */
  reached(share: number): Promise<void>;
  /** Reports that a fault finds no busy worker. Permits one more run, unless other runs may begin or are running. */
  starved(): void;
  /** Counts a fault that has struck. */
  struck(): void;
  /** Ends all present and future waits. */
  release(): void;
  readonly runsOver: number;
  readonly strikesDone: number;
}

/** Returns a pace for `runs` runs and the given strikes. At most `ahead` runs may begin beyond the next due strike. */
export function createPace(runs: number, ahead: number, strikes: readonly PlannedStrike[]): Pace {
  const waiting = new Set<{ due(): boolean; go(): void }>();
  let over = 0;
  let struck = 0;
  let released = false;
  /** Runs with a smaller number may begin even if a strike is due, because a fault had no run to strike. */
  let granted = 0;
  const allowed = () => {
    const due = strikes[struck]?.dueAt;
    const planned = due === undefined ? runs : Math.min(due * runs + ahead, LAST_DUE_AT * runs);
    return Math.max(planned, granted);
  };
  const look = () => {
    for (const one of [...waiting]) {
      if (!released && !one.due()) continue;
      waiting.delete(one);
      one.go();
    }
  };
  const when = (due: () => boolean): Promise<void> => {
    const gate = latch();
    waiting.add({ due, go: () => gate.open() });
    look();
    return gate.opened;
  };
  return {
    mayBegin: (run) => when(() => run < allowed()),
    runOver() {
      over += 1;
      look();
    },
    reached: (share) => when(() => over >= Math.floor(share * runs)),
    starved() {
      if (over < allowed()) return;
      granted = over + 1;
      look();
    },
    struck() {
      struck += 1;
      look();
    },
    release() {
      released = true;
      look();
    },
    get runsOver() {
      return over;
    },
    get strikesDone() {
      return struck;
    },
  };
}
