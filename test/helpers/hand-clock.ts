import type { Clock } from "../../src/shared/clock.ts";

/** A clock that only the test advances. */
export interface HandClock extends Clock {
  /** Advances the time and calls the timers that become due, in order. */
  advance(ms: number): void;
  /** Timers that have neither fired nor been cancelled. */
  readonly pending: number;
}

/** Returns a clock at 0. */
export function handClock(): HandClock {
  let now = 0;
  const timers = new Set<{ at: number; callback: () => void }>();
  const timeout = (ms: number, callback: () => void) => {
    const timer = { at: now + ms, callback };
    timers.add(timer);
    return { cancel: () => void timers.delete(timer) };
  };
  return {
    now: () => now,
    monotonicMs: () => now,
    timeout,
    sleep(ms, signal) {
      return new Promise((resolve) => {
        const done = () => {
          timer.cancel();
          signal?.removeEventListener("abort", done);
          resolve();
        };
        const timer = timeout(ms, done);
        if (signal?.aborted) done();
        else signal?.addEventListener("abort", done, { once: true });
      });
    },
    advance(ms) {
      const end = now + ms;
      for (;;) {
        const [next] = [...timers].filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at);
        if (!next) break;
        now = next.at;
        timers.delete(next);
        next.callback();
      }
      now = end;
    },
    get pending() {
      return timers.size;
    },
  };
}
