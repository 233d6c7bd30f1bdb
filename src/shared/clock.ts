/** The one door to time: everything that waits or measures is handed a clock. */

import { type Link, LinkedList } from "./linked-list.ts";
import { keepShape } from "./shape.ts";

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

/** A limit that is set less than this before the timer would fire anyway does not move it. */
const GRAIN_MS = 20;

class Limit {
  link: Link<Limit> | undefined;
  readonly dueMs: number;
  readonly callback: () => void;

  constructor(dueMs: number, callback: () => void) {
    this.dueMs = dueMs;
    this.callback = callback;
  }

  cancel(): void {
    this.link?.remove();
  }
}

/** Time limits on one timer, free for those that are cancelled in time: calls back at most {@link GRAIN_MS} late. */
export class CoarseTimers implements Pick<Clock, "timeout"> {
  readonly #clock: Clock;
  readonly #limits = new LinkedList<Limit>();
  #timer: { cancel(): void } | undefined;
  #firesAtMs = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  timeout(ms: number, callback: () => void): { cancel(): void } {
    const limit = new Limit(this.#clock.monotonicMs() + ms, callback);
    limit.link = this.#limits.add(limit);
    keepShape("limit", limit);
    if (limit.dueMs + GRAIN_MS < this.#firesAtMs) this.#arm(limit.dueMs);
    return limit;
  }

  /** Forgets every limit. */
  stop(): void {
    this.#timer?.cancel();
    this.#limits.clear();
    this.#firesAtMs = Number.POSITIVE_INFINITY;
  }

  #arm(atMs: number): void {
    this.#timer?.cancel();
    this.#firesAtMs = atMs;
    this.#timer = this.#clock.timeout(Math.max(0, atMs - this.#clock.monotonicMs()), () => this.#fire());
  }

  #fire(): void {
    this.#firesAtMs = Number.POSITIVE_INFINITY;
    const nowMs = this.#clock.monotonicMs();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const limit of this.#limits) {
      if (limit.dueMs > nowMs) {
        nextMs = Math.min(nextMs, limit.dueMs);
        continue;
      }
      limit.cancel();
      limit.callback();
    }
    if (nextMs + GRAIN_MS < this.#firesAtMs) this.#arm(nextMs);
  }
}
