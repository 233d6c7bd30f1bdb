/** The oracle's part about wakes: a run that workers take and hand back without getting on is a loop, however it ends. Pure. */
import type { Happening } from "./chronicle.ts";
import type { Evidence, Lookup, Violation } from "./evidence.ts";
import { isStep } from "./happening.ts";

/** So many wakes may workers take for each step that a run commits. */
const WAKES_A_STEP = 3;
/** A wake that has been to every worker, and none could do anything for it, rests so long at least, ms; then twice as long. */
const SHORTEST_REST_MS = 100;

/** What became of one run. */
export interface WokenRun {
  story: number;
  run: number;
  uid: string;
  /** How often a worker took a wake of it. */
  wakes: number;
  /** Commits with a turn or with results, however many of these. */
  steps: number;
  /** By wake: when it was taken for the first time and for the last, epoch ms. */
  taken: Map<number, { from: number; to: number }>;
}

/**
 * Whether runs were woken too often. Nothing is added for faults: a run that lost its worker needs a wake or two more. `visited`: so
 * many workers may be there that lack a run's tools or have no place for it; each wake goes from one to the next, and rests after
 * each round.
 */
export function judgeWakes(
  evidence: Pick<Evidence, "load" | "happenings">,
  lookup: Lookup,
  visited = 0,
): Violation[] {
  const runs = countWakes(evidence, lookup);
  // Evidence without wakes would have nothing to say against any run.
  if (runs.every(({ wakes }) => wakes === 0)) return [{ broken: "wakes are seen", detail: "none was" }];
  return runs
    .filter(({ wakes, steps, taken }) => wakes > WAKES_A_STEP * steps + visited * roundsOf(taken))
    .map(({ story, run, uid, wakes, steps }) => ({
      broken: `a run is woken at most ${WAKES_A_STEP} times for each step that it commits`,
      detail: `run ${run} of story ${story}: ${wakes} wakes for ${steps} steps`,
      uid,
    }));
}

/** So often the wakes may have been to every worker. */
function roundsOf(taken: WokenRun["taken"]): number {
  const rounds = [...taken.values()].map(({ from, to }) => 1 + Math.log2(1 + (to - from) / SHORTEST_REST_MS));
  return rounds.reduce((sum, each) => sum + each, 0);
}

/** Wakes and steps of each run that was told. */
export function countWakes(
  { load, happenings }: Pick<Evidence, "load" | "happenings">,
  { uidOf }: Pick<Lookup, "uidOf">,
): WokenRun[] {
  const byAgent = new Map<string, Happening[]>();
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

/** A wake that comes after a reply counts for the next run; there is none after the last. */
function addUp(runs: readonly WokenRun[], happenings: readonly Happening[]): void {
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
