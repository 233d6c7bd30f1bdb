/** The crash-point matrix: a crash before and after every commit of a run, with its expected aftermath. Pure. */

/** A crash at the worker's `commit`th commit: Redis performed it (`after`) or did not receive it (`before`). */
export interface CrashPoint {
  /** The worker dies while it finishes the run, or while it releases the run because its process drains. */
  plot: "finishes" | "drains";
  /** Number of parallel tool calls in the first turn. */
  tools: number;
  idempotent: boolean;
  /** Host on which the run continues; `other` does not have the workspace. */
  host: "same" | "other";
  /** Number of the commit; 1 is the claim. */
  commit: number;
  side: "before" | "after";
}

/** The results of a run and its follow-up. */
export interface Aftermath {
  /** Status of each run's reply, in order of arrival. */
  replies: string[];
  /** Number of completely served model calls for the first turn, the second and the follow-up's. */
  bought: number[];
  /** Calls that the model's API refused. */
  refused: number;
  /** How often each tool call took effect, over all hosts; largest first. */
  effects: number[];
  /** Number of results with "interrupted", and of all results. */
  interrupted: number;
  results: number;
  /** Notices to the model that its files are gone. */
  notices: number;
}

/** The scripts whose success is a commit. */
export const COMMITS = ["claim", "append", "release", "settle"] as const;
/** See {@link COMMITS}. */
export type Commit = (typeof COMMITS)[number];

/**
 * Returns the commits of an undisturbed run, in order: the claim; the messages, the first turn and the marks of its tools; the
 * tools' results; the last answer together with the end. A released run has committed its turn and begun no tool.
 */
export function commitsOf({ plot }: Pick<CrashPoint, "plot">): Commit[] {
  return plot === "drains" ? ["claim", "append", "release"] : ["claim", "append", "append", "settle"];
}

/** Numbers of the commits with the first turn, the results, and the last answer. */
const [TURN, RESULTS, END] = [2, 3, 4];

/** Common part of points at which one process can crash together and whose runs one worker can finish. */
export type Batch = Pick<CrashPoint, "plot" | "host" | "side">;

/** Returns all points of one batch. For a released run only the `release` commit is a new point. */
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

/** All batches of the matrix. */
export const BATCHES: readonly Batch[] = (["finishes", "drains"] as const).flatMap((plot) =>
  (["same", "other"] as const).flatMap((host) =>
    (["before", "after"] as const).map((side) => ({ plot, host, side })),
  ),
);

/** Returns a readable name of a point. */
export function nameOf(point: CrashPoint): string {
  const { tools, idempotent, commit, side } = point;
  const calls = `${tools} ${idempotent ? "idempotent" : "other"} tool calls`;
  return `${side} commit ${commit} (${commitsOf(point)[commit - 1]}) of a run with ${calls}`;
}

/** Returns the expected aftermath of a crash at a point: no committed work is paid for or done again. */
export function expectedAt({ plot, tools, idempotent, host, commit, side }: CrashPoint): Aftermath {
  // A release commits no further work.
  const heard = side === "after" && plot === "finishes" ? commit : commit - 1;
  // A turn is bought again only if the crash lost its commit.
  const bought = (turn: number) => (plot === "finishes" && commit === turn && side === "before" ? 2 : 1);
  const hasBegun = plot === "finishes" && heard >= TURN;
  const hasFinished = plot === "finishes" && heard >= RESULTS;
  // A call takes effect when it begins, and a worker begins it only after Redis has confirmed the commit.
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
