import { onTestFinished } from "vitest";

const STEP_MS = 10;
/** Limit (ms) of one counted step: a process that was stopped for longer could neither send nor receive meanwhile. */
const MOST_COUNTED_MS = 100;
/** Turns of the event loop granted after the second, so that work that was due within it can still finish. */
const TURNS = 10;

/**
 * Measures the time from now in which this process really runs. The machine may stop a process for a while; it sees the
 * effects of other processes only afterwards.
 */
export function livedTime(): { readonly ms: number } {
  const lived = { ms: 0 };
  let seenAtMs = performance.now();
  const timer = setInterval(() => {
    const nowMs = performance.now();
    lived.ms += Math.min(nowMs - seenAtMs, MOST_COUNTED_MS);
    seenAtMs = nowMs;
  }, STEP_MS);
  onTestFinished(() => clearInterval(timer));
  return lived;
}

/**
 * Starts a second of {@link livedTime}. A process that was stopped finds all its timers due at once and runs them in order, so
 * all earlier timers have run when this second is over.
 */
export function aSecond(): { isOver(): boolean } {
  const lived = livedTime();
  let isOver = false;
  const turn = (left: number): void => {
    isOver = left === 0;
    if (left > 0) setImmediate(turn, left - 1);
  };
  const timer = setInterval(() => {
    if (lived.ms < 1_000) return;
    clearInterval(timer);
    turn(TURNS);
  }, STEP_MS);
  onTestFinished(() => clearInterval(timer));
  return { isOver: () => isOver };
}
