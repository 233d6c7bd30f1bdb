import { onTestFinished } from "vitest";

/** Turns of the event loop that what was due within the second may still take: it looks once more before it gives up. */
const TURNS = 10;

/**
 * A second as this process lives it. A machine may let a process stand still; it then finds its timers due all at once,
 * and takes them in their order: what was to happen earlier has happened when this one is over.
 */
export function aSecond(): { isOver(): boolean } {
  let isOver = false;
  const turn = (left: number): void => {
    isOver = left === 0;
    if (left > 0) setImmediate(turn, left - 1);
  };
  const timer = setTimeout(turn, 1_000, TURNS);
  onTestFinished(() => clearTimeout(timer));
  return { isOver: () => isOver };
}
