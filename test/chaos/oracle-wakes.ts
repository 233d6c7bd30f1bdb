/** The oracle's part about wakes: finds runs that workers take and give back in a loop without progress. Pure. */
import type { RecordedChange } from "./chronicle.ts";
import type { Evidence, Lookup, Violation } from "./evidence.ts";
import { isStep } from "./happening.ts";

/** Maximum number of wakes that workers may take per committed step of a run. */
const WAKES_A_STEP = 3;
/** First delay (ms) of a wake that every worker has declined; it doubles after each round. */
const SHORTEST_REST_MS = 100;

/** Wakes and steps of one run. */
export interface WokenRun {
  story: number;
  run: number;
  uid: string;
  /** How often a worker took one of its wakes. */
  wakes: number;
  /** Number of commits with a turn or with one or more results. */
  steps: number;
  /** Times at which each wake was taken first and last, epoch ms, by wake number. */
  taken: Map<number, { from: number; to: number }>;
}

/**
 * Finds runs that were woken too often. The limit includes the one or two more wakes of a run that lost its worker. `visited`: the
 * number of workers that may lack a run's tools or a free slot; each wake passes from one to the next, and is delayed after each
 * round.
 */
export function judgeWakes(
  evidence: Pick<Evidence, "load" | "happenings">,
  lookup: Lookup,
  visited = 0,
): Violation[] {
  const runs = countWakes(evidence, lookup);
  // Without wakes in the evidence, no run could be judged.
  if (runs.every(({ wakes }) => wakes === 0)) return [{ broken: "wakes are seen", detail: "none was" }];
  return runs
    .filter(({ wakes, steps, taken }) => wakes > WAKES_A_STEP * steps + visited * roundsOf(taken))
    .map(({ story, run, uid, wakes, steps }) => ({
      broken: `a run is woken at most ${WAKES_A_STEP} times for each step that it commits`,
      detail: `run ${run} of story ${story}: ${wakes} wakes for ${steps} steps`,
      uid,
    }));
}

/** Returns the maximum number of rounds in which the wakes may have passed all workers. */
function roundsOf(taken: WokenRun["taken"]): number {
  const rounds = [...taken.values()].map(({ from, to }) => 1 + Math.log2(1 + (to - from) / SHORTEST_REST_MS));
  return rounds.reduce((sum, each) => sum + each, 0);
}

/** Counts the wakes and steps of each run. */
export function countWakes(
  { load, happenings }: Pick<Evidence, "load" | "happenings">,
  { uidOf }: Pick<Lookup, "uidOf">,
): WokenRun[] {
  const byAgent = new Map<string, RecordedChange[]>();
  for (const one of happenings) {
    const known = byAgent.get(one.uid);
    if (known) known.push(one);
    else byAgent.set(one.uid, [one]);
  }
  return load.told.flatMap((told) => {
    const uid = uidOf(told) ?? "";
    const runs = told.story.prompts.map((_, part) => {
      return { story: told.story.number, run: part + 1, uid, wakes: 0, steps: 0, taken: new Map() };
    });
    addUp(runs, byAgent.get(uid) ?? []);
    return runs;
  });
}

/** Adds up the happenings of an agent. A wake after a reply counts for the next run, or for the last run if there is none. */
function addUp(runs: readonly WokenRun[], happenings: readonly RecordedChange[]): void {
  let replies = 0;
  let committedAt = 0;
  for (const one of happenings) {
    const run = runs[Math.min(replies, runs.length - 1)];
    if (!run) return;
    if (one.what === "taken") {
      run.wakes += 1;
      run.taken.set(one.wake, { from: run.taken.get(one.wake)?.from ?? one.at, to: one.at });
    }
    if (one.what === "entry" && one.kind === "reply") replies += 1;
    if (one.what !== "committed" || !isStep(one.entry) || one.at === committedAt) continue;
    run.steps += 1;
    committedAt = one.at;
  }
}
