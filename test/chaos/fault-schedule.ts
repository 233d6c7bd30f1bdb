/**
 * The fault schedule: which faults a chaos run gets, drawn from its seed, and the pace at which they come.
 * Pure but for the pace, which counts what the others tell it.
 *
 * 1. Faults are spread over the work, not over time: on a slow machine they come later, not denser.
 * 2. Work waits for faults that are behind, and some of it for the last ones: they still find runs to hit. A fault that
 *    had to wait until everything that might begin was over is given one run after the other.
 */
import { latch } from "../helpers/latch.ts";
import { seeded } from "../helpers/seeded.ts";

/** What can be asked for; `swallow` is a state of all proxies, the others strike once each. */
export const FAULTS = ["kill", "stop", "partition", "swallow", "redis", "clock"] as const;
/** See {@link FAULTS}. */
export type FaultName = (typeof FAULTS)[number];

/** `refuse` and `blackhole` are the two partitions. */
export type StrikeKind = "kill" | "stop" | "refuse" | "blackhole" | "redis" | "clock";

/** Whether such a fault strikes Redis, and so no worker more than another. */
export function isOfRedis(kind: StrikeKind): boolean {
  return kind === "redis" || kind === "clock";
}

/** One fault that will strike. */
export interface PlannedStrike {
  kind: StrikeKind;
  /** Share of the runs that are over when it is due. */
  dueAt: number;
  /** Chosen among the busy workers by this number in [0, 1). */
  aim: number;
  /** How long after it is due it strikes, ms: any moment of a turn. */
  delayMs: number;
  /** How long a Redis that was killed stays away, as a multiple of the lease. */
  outage: number;
  /** How far Redis' clock jumps, as a multiple of the lease: forth, or back where it is less than 0. */
  jump: number;
}

/** With stops, every fourth of the faults that hit one process is one. */
const KILLS_A_STOP = 3;
const KILLS_A_PARTITION = 5;
const KILLS_A_RESTART = 20;
const KILLS_A_JUMP = 10;
/** Once forth and once back. */
const FEWEST_JUMPS = 2;
const SHORTEST_JUMP = 0.1;
const LONGEST_JUMP = 1.5;
/** The last fault is due when so many of the runs are over. */
const LAST_DUE_AT = 0.9;
const LONGEST_DELAY_MS = 400;

/** The strikes of a chaos run with `kills` SIGKILLs, in order. */
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

/** What keeps work and faults together. */
export interface Pace {
  /** Resolves when run number `run` may begin. */
  mayBegin(run: number): Promise<void>;
  /** One more run is over. */
  runOver(): void;
  /** Resolves when so large a share of the runs is over, or when no more will be. */
  reached(share: number): Promise<void>;
  /** A fault finds nobody busy: one run more may begin, unless others may or are under way. */
  starved(): void;
  /** One more fault has struck. */
  struck(): void;
  /** Nobody needs to wait any more. */
  release(): void;
  readonly runsOver: number;
  readonly strikesDone: number;
}

/** A pace for `runs` runs and the given strikes; at most `ahead` runs begin before the strike that is due with them. */
export function createPace(runs: number, ahead: number, strikes: readonly PlannedStrike[]): Pace {
  const waiting = new Set<{ due(): boolean; go(): void }>();
  let over = 0;
  let struck = 0;
  let released = false;
  /** Runs before this one may begin whatever is due: faults had nothing to strike. */
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
