import { onTestFinished } from "vitest";

const STEP_MS = 10;
/** A process that stood still for longer could neither send nor hear meanwhile: no more of it counts. */
const MOST_COUNTED_MS = 100;
/** Turns of the event loop that what was due within the second may still take: it looks once more before it gives up. */
const TURNS = 10;

/**
 * Time as this process lives it, from now on. A machine may let a process stand still; what others do for it in that time
 * it sees only afterwards.
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
 * A second of {@link livedTime}. A process that stood still finds its timers due all at once and takes them in their order:
 * what was to happen earlier has happened when this one is over.
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
