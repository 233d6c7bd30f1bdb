/** Whether calls side by side pay, from how long they took: what the backend takes at a time. Pure. */

/** The calls that were made at one number of calls side by side. */
export interface Level {
  concurrency: number;
  /** How long each call took that brought an answer, ms. */
  callsMs: readonly number[];
  /** The first failure, if any; `isLimit`: the provider asked for fewer calls. */
  failure?: { isLimit: boolean; problem: string };
}

/**
 * What a backend takes. `parallel`: the most that was tried brings more than anything below; `serial`: beyond `takes`
 * calls at a time the others wait; `limited`: beyond that they are refused; `too_quick`: calls so short say nothing.
 */
export type Parallelism =
  | { status: "parallel"; takes: number }
  | { status: "serial"; takes: number }
  | { status: "limited"; takes: number; problem: string }
  | { status: "too_quick"; callMs: number }
  | { status: "failed"; problem: string };

/** Below this, a call measures this machine and not the backend. */
const TOO_QUICK_MS = 15;
/** This part of the ideal counts as parallel: backends slow down a little under load. */
const NEARLY = 0.7;

/** Calls a second at a level: by its median call, which one slow call does not change. */
export function callsPerSecond({ concurrency, callsMs }: Level): number {
  return (concurrency * 1_000) / Math.max(median(callsMs), 0.001);
}

/** Judges levels in growing order, the first one with one call at a time. */
export function judgeParallelism(levels: readonly Level[]): Parallelism {
  const broken = levels.find(({ failure }) => failure);
  const whole = levels.slice(0, broken ? levels.indexOf(broken) : undefined);
  if (broken?.failure && (!broken.failure.isLimit || whole.length === 0)) {
    return { status: "failed", problem: broken.failure.problem };
  }
  if (whole.length === 0) return { status: "failed", problem: "no call was made" };
  // What a call takes that does not wait: at whichever level that shows, for the first ones find everything cold.
  const callMs = Math.min(...whole.map((level) => median(level.callsMs)));
  const best = Math.max(...whole.map((level) => (level.concurrency * callMs) / median(level.callsMs)));
  const most = whole.at(-1)?.concurrency ?? 1;
  if (callMs < TOO_QUICK_MS) return { status: "too_quick", callMs };
  if (broken?.failure) return { status: "limited", takes: most, problem: broken.failure.problem };
  if (best >= most * NEARLY) return { status: "parallel", takes: most };
  return { status: "serial", takes: Math.max(1, Math.round(best)) };
}

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}
