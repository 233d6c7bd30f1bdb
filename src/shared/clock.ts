/** The only door to time and timers: everything else is handed a {@link Clock}, so tests decide what time it is. */

/** Time as a parameter. All durations are milliseconds. */
export interface Clock {
  /** Wall-clock time in milliseconds since the epoch. May jump; never use it to measure a duration. */
  now(): number;
  /** Monotonic time in milliseconds since an arbitrary origin. Never goes back. */
  monotonicMs(): number;
  /** Resolves after `ms`, or at once when `signal` aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `callback` once after `ms` unless cancelled first. `cancel` is idempotent. */
  timeout(ms: number, callback: () => void): { cancel(): void };
}

/** The host's own clock. Its timers keep the process alive until they fire or are cancelled. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal?.addEventListener("abort", done, { once: true });
    }),
  timeout: (ms, callback) => {
    const timer = setTimeout(callback, ms);
    return { cancel: () => clearTimeout(timer) };
  },
};
