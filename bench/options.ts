/** Reads the command line of the benchmark. */
import { parseArgs } from "node:util";

/** Parts of the benchmark, in the order in which they run. */
export const PARTS = [
  "ratio",
  "growth",
  "import",
  "latency",
  "burst",
  "depth",
  "memory",
  "leftBehind",
] as const;
/** Name of a part. */
export type PartName = (typeof PARTS)[number];

/** Number of warm-up tasks after which the goals of the ratios hold. */
export const FRESH = 60;

/** How the benchmark is run. */
export const USAGE = `npm run bench [-- <option>…]

  --parts=<a,b>        measure only these: ${PARTS.join(", ")} (default: all)
  --only=<word>        ratio: only variants whose name contains it, and the naive loops that they are compared with
  --warm=<n,m>         ratio: tasks before the measurement; a table for each (default: ${FRESH})
  --tasks=<n>          ratio: tasks of a measurement (default: 150)
  --turns=<n>          ratio: tool turns of a task (default: 10)
  --concurrency=<n>    ratio: tasks side by side (default: 10)
  --rounds=<n>         ratio, growth, import: rounds (default: 8, 3, 9)
  --depths=<n,m>       depth: numbers of queued agents (default: 100,30000)
  --gate               fail if a ratio is above its bound; needs ${FRESH} among --warm
  --write              write each part's section of docs/benchmarks.md
  --help               print this
`;

/** Options of the benchmark. */
export interface Options {
  parts: readonly PartName[];
  only: string;
  /** Numbers of warm-up tasks of the ratios, a table for each. */
  warm: readonly number[];
  tasks: number;
  turns: number;
  concurrency: number;
  /** Number of rounds; each part has its own default. */
  rounds: number | undefined;
  depths: readonly number[];
  gate: boolean;
  write: boolean;
}

/** A command line that the benchmark does not take; its message says why. */
export class UsageError extends Error {}

/** Reads the arguments; returns undefined if they ask for help, and throws a {@link UsageError} if they are wrong. */
export function readOptions(args: readonly string[]): Options | undefined {
  const values = parsed(args);
  if (values.help) return undefined;
  const parts = values.parts === "" ? [...PARTS] : values.parts.split(",").map(partOf);
  const warm = numbers("warm", values.warm);
  if (values.gate && !(parts.includes("ratio") && warm.includes(FRESH)))
    throw new UsageError(`--gate judges the part ratio after ${FRESH} tasks, which is not asked for`);
  return {
    parts,
    only: values.only,
    warm,
    tasks: wholeNumber("tasks", values.tasks),
    turns: wholeNumber("turns", values.turns),
    concurrency: wholeNumber("concurrency", values.concurrency),
    rounds: values.rounds === undefined ? undefined : wholeNumber("rounds", values.rounds),
    depths: numbers("depths", values.depths),
    gate: values.gate,
    write: values.write,
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        rounds: { type: "string" },
        tasks: { type: "string", default: "150" },
        turns: { type: "string", default: "10" },
        concurrency: { type: "string", default: "10" },
        warm: { type: "string", default: `${FRESH}` },
        only: { type: "string", default: "" },
        parts: { type: "string", default: "" },
        depths: { type: "string", default: "100,30000" },
        gate: { type: "boolean", default: false },
        write: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
      },
    }).values;
  } catch (error) {
    // Node's message goes on with advice for programs that take positional arguments.
    const [said = ""] = error instanceof Error ? error.message.split(". ") : [];
    throw new UsageError(said);
  }
}

function partOf(name: string): PartName {
  const part = PARTS.find((known) => known === name);
  if (part === undefined) throw new UsageError(`No part is called ${name}: ${PARTS.join(", ")}`);
  return part;
}

function numbers(option: string, values: string): number[] {
  return values.split(",").map((value) => wholeNumber(option, value));
}

function wholeNumber(option: string, value: string): number {
  if (!/^[1-9]\d*$/.test(value)) throw new UsageError(`--${option} takes a number above 0, not '${value}'`);
  return Number(value);
}
