import type { Clock } from "../../../src/shared/clock.ts";

/** A clock that a test moves by hand; due timers fire in their order. */
export interface ManualClock extends Clock {
  advance(ms: number): void;
  /** Timers that have not fired. */
  readonly pending: number;
}

/** A clock at 0. */
export function createManualClock(): ManualClock {
  let nowMs = 0;
  let timers: { atMs: number; fire: () => void }[] = [];
  const timeout: Clock["timeout"] = (ms, fire) => {
    const timer = { atMs: nowMs + ms, fire };
    timers.push(timer);
    return {
      cancel: () => {
        timers = timers.filter((other) => other !== timer);
      },
    };
  };
  return {
    now: () => nowMs,
    monotonicMs: () => nowMs,
    sleep: (ms) => new Promise((resolve) => timeout(ms, resolve)),
    timeout,
    get pending() {
      return timers.length;
    },
    advance(ms) {
      const endMs = nowMs + ms;
      for (;;) {
        const [due] = timers.filter((timer) => timer.atMs <= endMs).sort((a, b) => a.atMs - b.atMs);
        if (!due) break;
        nowMs = due.atMs;
        timers = timers.filter((timer) => timer !== due);
        due.fire();
      }
      nowMs = endMs;
    },
  };
}
