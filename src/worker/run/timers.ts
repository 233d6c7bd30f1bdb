/** Time limits of a process' tool calls on one timer: coarse, and free for a call that ends in time. */
import type { Clock } from "../../shared/clock.ts";

/** A limit that is set less than this before the timer would fire anyway does not move it. */
const GRAIN_MS = 20;

interface Limit {
  dueMs: number;
  callback: () => void;
}

/** Calls back after a time, at most {@link GRAIN_MS} late. */
export class CoarseTimers implements Pick<Clock, "timeout"> {
  readonly #clock: Clock;
  readonly #limits = new Set<Limit>();
  #timer: { cancel(): void } | undefined;
  #firesAtMs = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  timeout(ms: number, callback: () => void): { cancel(): void } {
    const limit = { dueMs: this.#clock.monotonicMs() + ms, callback };
    this.#limits.add(limit);
    if (limit.dueMs + GRAIN_MS < this.#firesAtMs) this.#arm(limit.dueMs);
    return { cancel: () => this.#limits.delete(limit) };
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
    for (const limit of [...this.#limits]) {
      if (limit.dueMs > nowMs) {
        nextMs = Math.min(nextMs, limit.dueMs);
        continue;
      }
      this.#limits.delete(limit);
      limit.callback();
    }
    if (nextMs + GRAIN_MS < this.#firesAtMs) this.#arm(nextMs);
  }
}
