/** Parses the options of a chaos run from the command line. Pure. */
import { parseArgs } from "node:util";
import { TIMING, type Timing } from "../../src/shared/protocol/limits.ts";
import { FAULTS, type FaultName } from "./fault-schedule.ts";
import type { FleetKind } from "./fleet.ts";
import type { Tempo } from "./stories.ts";

/** Short leases for a quick chaos run. */
const SHORT_LEASES: Timing = {
  ...TIMING,
  leaseMs: 2_500,
  renewMs: 500,
  leaseMarginMs: 500,
  checkMs: 1_000,
  longestCheckMs: 4_000,
};

/** Leases and pace by name; `short` is for tests that must end soon. */
export const TIMINGS: Record<"production" | "short", { timing: Timing; tempo: Tempo; window: number }> = {
  production: {
    timing: TIMING,
    tempo: { latencyMs: [200, 500], toolMs: [20, 300], turns: [6, 10] },
    window: 40,
  },
  short: {
    timing: SHORT_LEASES,
    tempo: { latencyMs: [80, 250], toolMs: [20, 150], turns: [4, 7] },
    window: 24,
  },
};

/** Options of a chaos run. */
export interface ChaosOptions {
  runs: number;
  /** Number of SIGKILLs; it determines the numbers of the other faults. */
  kills: number;
  seed: number;
  workers: number;
  faults: ReadonlySet<FaultName>;
  timing: keyof typeof TIMINGS;
  /** Duration of a model call, ms: from, to; default: that of `timing`. */
  latencyMs?: Range;
  /** Turns of a run: from, to; default: those of `timing`. */
  turns?: Range;
  fleet: FleetKind;
  /** Whether suspects run in their own processes. */
  isolation: boolean;
  /** Whether BullMQ checks for stalled jobs; without it only the agents' deadlines recover lost jobs. */
  stalledCheck: boolean;
  /** Command that repeats this run. */
  command: string;
}

type Range = readonly [from: number, to: number];

/** Returns the timing, window and tempo of these options. */
export function timesOf({ timing, latencyMs, turns }: Pick<ChaosOptions, "timing" | "latencyMs" | "turns">) {
  const { tempo, ...times } = TIMINGS[timing];
  return { ...times, tempo: { ...tempo, ...(latencyMs && { latencyMs }), ...(turns && { turns }) } };
}

/** Valid options, or a sentence that names the problem. */
export type ParsedOptions =
  | { status: "valid"; options: ChaosOptions }
  | { status: "invalid"; problem: string };

/** Usage text of the command. */
export const USAGE = `npm run test:chaos -- [options]
  --runs 100             runs of agents, each told as a story with a known end
  --kills 20             SIGKILLs of workers; the number of the other faults follows
  --seed N               draws stories and faults; default: another one each time
  --workers 4            worker processes, each behind a proxy of its own
  --faults a,b           some of ${FAULTS.join(",")}; default: all
  --timing production    leases of production, or short
  --latency 10000-60000  how long the model takes for a call, ms; default: as the timing says
  --turns 2-4            turns of a run; default: as the timing says
  --fleet alike          or mixed: every second worker lacks a tool, agents name theirs
  --isolation            suspects run in processes of their own
  --no-stalled-check     BullMQ looks for no stalled jobs: the agents' own deadlines alone bring back what was forgotten`;

const COUNTS = {
  runs: { default: "100", from: 1, to: 100_000 },
  kills: { default: "20", from: 0, to: 10_000 },
  workers: { default: "4", from: 2, to: 64 },
} as const;
const LARGEST_SEED = 2 ** 31 - 1;

/** Parses the arguments after the script's name; `drawn` is the seed if none is given. */
export function parseOptions(args: readonly string[], drawn: number): ParsedOptions {
  const texts = readTexts(args);
  if (typeof texts === "string") return { status: "invalid", problem: texts };
  const problems: string[] = [];
  const count = (name: string, text: string, from: number, to: number): number => {
    const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (!(number >= from && number <= to))
      problems.push(`--${name} must be a whole number from ${from} to ${to}, not "${text}"`);
    return number;
  };
  const [runs, kills, workers] = (["runs", "kills", "workers"] as const).map((name) =>
    count(name, texts[name], COUNTS[name].from, COUNTS[name].to),
  ) as [number, number, number];
  const seed = count("seed", texts.seed ?? String(drawn), 0, LARGEST_SEED);
  const names = texts.faults.split(",").filter((name) => name !== "");
  const unknown = names.filter((name) => !FAULTS.some((fault) => fault === name));
  if (unknown.length > 0 || names.length === 0)
    problems.push(`--faults must be some of ${FAULTS.join(",")}, not "${texts.faults}"`);
  const faults = new Set(FAULTS.filter((fault) => names.includes(fault)));
  const { timing } = texts;
  if (timing !== "production" && timing !== "short") {
    problems.push(`--timing must be production or short, not "${timing}"`);
    return { status: "invalid", problem: `${problems.join("; ")}.` };
  }
  const [latencyMs, turns] = [rangeOf(texts.latency), rangeOf(texts.turns)];
  if (latencyMs === "wrong")
    problems.push(`--latency must be two numbers of ms, 10000-60000, not "${texts.latency}"`);
  if (turns === "wrong") problems.push(`--turns must be two numbers, 2-4, not "${texts.turns}"`);
  const { fleet, isolation } = texts;
  const stalledCheck = !texts["no-stalled-check"];
  if (fleet !== "alike" && fleet !== "mixed") problems.push(`--fleet must be alike or mixed, not "${fleet}"`);
  if (problems.length > 0 || latencyMs === "wrong" || turns === "wrong")
    return { status: "invalid", problem: `${problems.join("; ")}.` };
  const options: Omit<ChaosOptions, "command"> = {
    ...{ runs, kills, seed, workers, faults, timing, isolation, stalledCheck },
    ...(latencyMs && { latencyMs }),
    ...(turns && { turns }),
    fleet: fleet === "mixed" ? fleet : "alike",
  };
  return { status: "valid", options: { ...options, command: commandOf(options) } };
}

function commandOf(options: Omit<ChaosOptions, "command">): string {
  const { runs, kills, seed, workers, faults, timing, latencyMs, turns, fleet, isolation, stalledCheck } =
    options;
  return [
    `npm run test:chaos -- --runs ${runs} --kills ${kills} --seed ${seed} --workers ${workers}`,
    `--faults ${[...faults].join(",")} --timing ${timing}`,
    ...(latencyMs ? [`--latency ${latencyMs.join("-")}`] : []),
    ...(turns ? [`--turns ${turns.join("-")}`] : []),
    ...(fleet === "mixed" ? ["--fleet mixed"] : []),
    ...(isolation ? ["--isolation"] : []),
    ...(stalledCheck ? [] : ["--no-stalled-check"]),
  ].join(" ");
}

function rangeOf(text: string | undefined): Range | "wrong" | undefined {
  if (text === undefined) return undefined;
  const [, from, to] = /^(\d{1,6})-(\d{1,6})$/.exec(text) ?? [];
  return from !== undefined && Number(from) <= Number(to) ? [Number(from), Number(to)] : "wrong";
}

function readTexts(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        runs: { type: "string", default: COUNTS.runs.default },
        kills: { type: "string", default: COUNTS.kills.default },
        seed: { type: "string" },
        workers: { type: "string", default: COUNTS.workers.default },
        faults: { type: "string", default: FAULTS.join(",") },
        timing: { type: "string", default: "production" },
        latency: { type: "string" },
        turns: { type: "string" },
        fleet: { type: "string", default: "alike" },
        isolation: { type: "boolean", default: false },
        "no-stalled-check": { type: "boolean", default: false },
      },
    }).values;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
