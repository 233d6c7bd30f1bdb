/** The one door to time: everything that waits or reads a clock is handed one of these. */

/** A source of time. Wall-clock time is for stamps, monotonic time for durations and leases. */
export interface Clock {
  /** Wall-clock time in epoch milliseconds; it may jump. */
  now(): number;
  /** Milliseconds from an arbitrary origin; it never goes back. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects at once with the signal's reason when `signal` is or becomes aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `callback` once after `ms`, unless cancelled first; `cancel` may be called any number of times. */
  timeout(ms: number, callback: () => void): { cancel(): void };
}

/** The machine's own clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const onAbort = (): void => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      }, ms);
      signal?.addEventListener("abort", onAbort, { once: true });
    }),
  timeout(ms, callback) {
    const timer = setTimeout(callback, ms);
    return { cancel: () => clearTimeout(timer) };
  },
};
