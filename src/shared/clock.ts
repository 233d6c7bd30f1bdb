/**
 * The only access to time: code that waits or measures takes a clock as a parameter. Rules of {@link LoopTime}:
 *
 * 1. It counts only while a timeout is pending; one timer serves all timeouts.
 * 2. Before each step the event loop takes one more turn: data that arrived during a stall is read before time is up.
 */

import { keptForV8 } from "./hidden-class.ts";
import { type Link, LinkedList } from "./linked-list.ts";
import { onAbort } from "./stop-signal.ts";

/** Source of time and timers, passed as a parameter. */
export interface Clock {
  /** Wall clock, epoch ms. For people only: deadlines use Redis' time, durations the monotonic clock. */
  now(): number;
  /** Monotonic ms since an arbitrary start. */
  monotonicMs(): number;
  /** Resolves after `ms`, as {@link Clock.timeout} does, or at once (without error) when `signal` aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `callback` once after `ms` unless cancelled; after a stall, when data that arrived meanwhile has been read. */
  timeout(ms: number, callback: () => void): { cancel(): void };
}

/** Returns true if `value` is an object with these methods. Checks values of callers without types. */
export function hasMethods(value: unknown, names: readonly string[]): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    names.every((name) => typeof Reflect.get(value, name) === "function")
  );
}

/** Required form of a clock, as the end of "must be …". */
export const CLOCK_FORM = "a clock: an object with now, monotonicMs, sleep and timeout";

/** Returns true if `value` has the methods of a {@link Clock}. */
export function isClock(value: unknown): value is Clock {
  return hasMethods(value, ["now", "monotonicMs", "sleep", "timeout"]);
}

/** A timer that fires so many ms late means that the event loop, or the whole process, stood still. */
const STALL_MS = 100;

/** Longest delay of setTimeout, ms; with a longer one it fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Clock of this machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: performance.now.bind(performance),
  sleep(ms, signal) {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const done = () => {
        timer.cancel();
        forget();
        resolve();
      };
      const timer = systemClock.timeout(ms, done);
      const forget = onAbort(signal, done);
    });
  },
  timeout(ms, callback) {
    const delayMs = Math.min(ms, LONGEST_TIMER_MS);
    const dueMs = performance.now() + delayMs;
    let timer = setTimeout(() => {
      if (performance.now() - dueMs < STALL_MS) return callback();
      // Timers come before input and output in a turn of the event loop.
      timer = setTimeout(callback);
    }, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
};

/** Resolves to the result of `work`, or to undefined after `ms`. `work` then goes on, and its result or error is ignored. */
export function within<T>(clock: Clock, ms: number, work: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const limit = clock.timeout(ms, () => resolve(undefined));
    work.then(resolve, reject).finally(() => limit.cancel());
  });
}

/** A limit that is due at most this many ms before the timer fires does not move the timer. */
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

/** Time limits that share one timer: a limit cancelled in time costs no timer. Calls back at most {@link GRAIN_MS} late. */
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
    keptForV8.limit = limit;
    if (limit.dueMs + GRAIN_MS < this.#firesAtMs) this.#arm(limit.dueMs);
    return limit;
  }

  /** Removes every limit without calling back. */
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

/** Interval between two steps. */
const STEP_MS = 20;
/** Maximum that one step counts, however late it comes. */
const MOST_COUNTED_MS = 100;

interface Timeout {
  readonly atMs: number;
  readonly due: () => void;
}

/**
 * Time during which this process could work, starting at 0. A stall of the event loop counts as {@link MOST_COUNTED_MS} at
 * most, because no data could arrive meanwhile. So a busy machine does not look like a dead Redis.
 */
export class LoopTime {
  /** Counted ms; does not advance while no timeout is pending. Only this class writes it. */
  nowMs = 0;
  readonly #clock: Clock;
  readonly #timeouts = new Set<Timeout>();
  #timer: { cancel(): void } | undefined;
  #steppedAtMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `due` once after `ms` counted ms, unless cancelled. */
  after(ms: number, due: () => void): { cancel(): void } {
    if (!this.#timer) {
      this.#steppedAtMs = this.#clock.monotonicMs();
      this.#wait();
    }
    const timeout = { atMs: this.nowMs + Math.max(0, ms), due };
    this.#timeouts.add(timeout);
    return { cancel: () => this.#cancel(timeout) };
  }

  #cancel(timeout: Timeout): void {
    this.#timeouts.delete(timeout);
    if (this.#timeouts.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #wait(): void {
    const step = () => this.#step();
    this.#timer = this.#clock.timeout(STEP_MS, () => {
      this.#timer = this.#clock.timeout(0, step);
    });
  }

  #step(): void {
    const atMs = this.#clock.monotonicMs();
    this.nowMs += Math.min(atMs - this.#steppedAtMs, MOST_COUNTED_MS);
    this.#steppedAtMs = atMs;
    for (const timeout of [...this.#timeouts]) {
      if (timeout.atMs <= this.nowMs && this.#timeouts.delete(timeout)) timeout.due();
    }
    if (this.#timeouts.size > 0) this.#wait();
    else this.#timer = undefined;
  }
}
