/** The crash-point matrix: every commit of a run, both sides of it, and what must come of a crash there. Pure. */

/** One way to crash: a worker's last act is its `commit`th commit, of which Redis heard (`after`) or did not (`before`). */
export interface CrashPoint {
  /** What the worker was about when it died: to finish the run, or to hand it back because its process was told to stop. */
  plot: "finishes" | "drains";
  /** Tool calls of the first turn, side by side. */
  tools: number;
  idempotent: boolean;
  /** Where the run goes on: `other` does not have the workspace. */
  host: "same" | "other";
  /** Counted from 1, the claim. */
  commit: number;
  side: "before" | "after";
}

/** What a run and its follow-up left behind. */
export interface Aftermath {
  /** Status of each run's reply, in the order in which they came. */
  replies: string[];
  /** What the model served whole, by log entry: calls for the first turn, the second, the follow-up's. */
  bought: number[];
  /** Calls that the model's API refused. */
  refused: number;
  /** How often each tool call took effect, over all hosts; most often first. */
  effects: number[];
  /** Results that say "interrupted", and results in all. */
  interrupted: number;
  results: number;
  /** Words to the model that its files are gone. */
  notices: number;
}

/** The scripts whose success is a commit. */
export const COMMITS = ["claim", "append", "release", "settle"] as const;
/** See {@link COMMITS}. */
export type Commit = (typeof COMMITS)[number];

/**
 * The commits of an undisturbed run, in order: the claim; the messages, the first turn and the marks of its tools; their
 * results; the last answer and the end in one. A run that is handed back has its turn committed, and no tool begun.
 */
export function commitsOf({ plot }: Pick<CrashPoint, "plot">): Commit[] {
  return plot === "drains" ? ["claim", "append", "release"] : ["claim", "append", "append", "settle"];
}

/** Number of the commit that holds the first turn, of the one with the results, and of the last answer's. */
const [TURN, RESULTS, END] = [2, 3, 4];

/** Points that one process can crash at together, and one worker can go on with. */
export type Batch = Pick<CrashPoint, "plot" | "host" | "side">;

/** All points of one batch; of a run that is handed back only that commit is new. */
export function pointsOf(batch: Batch): CrashPoint[] {
  const runs = [false, true].flatMap((idempotent) =>
    [1, 2, 3].map((tools) => ({ ...batch, idempotent, tools })),
  );
  return runs.flatMap((run) =>
    commitsOf(run).flatMap((name, index) =>
      run.plot === "finishes" || name === "release" ? [{ ...run, commit: index + 1 }] : [],
    ),
  );
}

/** Every batch of the matrix. */
export const BATCHES: readonly Batch[] = (["finishes", "drains"] as const).flatMap((plot) =>
  (["same", "other"] as const).flatMap((host) =>
    (["before", "after"] as const).map((side) => ({ plot, host, side })),
  ),
);

/** A point in words. */
export function nameOf(point: CrashPoint): string {
  const { tools, idempotent, commit, side } = point;
  const calls = `${tools} ${idempotent ? "idempotent" : "other"} tool calls`;
  return `${side} commit ${commit} (${commitsOf(point)[commit - 1]}) of a run with ${calls}`;
}

/** What must come of a crash at `point`: nothing that was committed is paid for or done again. */
export function expectedAt({ plot, tools, idempotent, host, commit, side }: CrashPoint): Aftermath {
  // Handing back adds nothing to what was committed before.
  const heard = side === "after" && plot === "finishes" ? commit : commit - 1;
  // A turn is bought again only when the crash swallowed its commit.
  const bought = (turn: number) => (plot === "finishes" && commit === turn && side === "before" ? 2 : 1);
  const hasBegun = plot === "finishes" && heard >= TURN;
  const hasFinished = plot === "finishes" && heard >= RESULTS;
  // All calls take effect at their beginning, which no worker reaches that did not hear that it was committed.
  const ran = plot === "finishes" && commit > TURN ? 1 : 0;
  const again = !hasFinished && (!hasBegun || idempotent) ? 1 : 0;
  return {
    replies: ["succeeded", "succeeded"],
    bought: [bought(TURN), bought(END), 1],
    refused: 0,
    effects: Array.from({ length: tools }, () => ran + again),
    interrupted: hasBegun && !hasFinished && !idempotent ? tools : 0,
    results: tools,
    notices: host === "other" && hasBegun ? 1 : 0,
  };
}
