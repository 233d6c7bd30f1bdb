/** The one door to time: everything that waits or measures is handed a clock. */

/** Time as a parameter. */
export interface Clock {
  /** Wall clock, epoch ms; for people only: deadlines use Redis' time, durations the monotonic clock. */
  now(): number;
  /** Monotonic ms since an arbitrary start. */
  monotonicMs(): number;
  /** Resolves after `ms`, or at once (without error) when `signal` aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `callback` once after `ms` unless cancelled. */
  timeout(ms: number, callback: () => void): { cancel(): void };
}

/** setTimeout fires at once beyond this many ms. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: performance.now.bind(performance),
  sleep(ms, signal) {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, Math.min(ms, LONGEST_TIMER_MS));
      signal?.addEventListener("abort", done, { once: true });
    });
  },
  timeout(ms, callback) {
    const timer = setTimeout(callback, Math.min(ms, LONGEST_TIMER_MS));
    return { cancel: () => clearTimeout(timer) };
  },
};
