/**
 * The line of the wakes that this worker returned because it cannot run their agents. Each is delayed before it comes back: all
 * workers together take back a hundred a second. So any number of agents that no free worker can run takes little of Redis'
 * time and of the workers' slots.
 */
import type { Clock } from "../shared/clock.ts";
import { LONGEST_RETURN_DELAY_MS } from "../shared/redis/wake-queue.ts";

/** Interval at which the wakes that all workers returned come back. */
const SPACING_MS = 10;

/** Returns the delay of a returned wake: `delayMs`, or longer if the line is. `workers`: the number of live workers. */
export type WakeLine = (delayMs: number, workers: number) => number;

/** Creates an empty line. */
export function createWakeLine(clock: Pick<Clock, "monotonicMs">): WakeLine {
  let endMs = Number.NEGATIVE_INFINITY;
  return (delayMs, workers) => {
    const nowMs = clock.monotonicMs();
    endMs = Math.min(Math.max(endMs, nowMs) + SPACING_MS * workers, nowMs + LONGEST_RETURN_DELAY_MS);
    return Math.max(delayMs, endMs - nowMs);
  };
}
