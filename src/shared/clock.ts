/**
 * The one door to time: everything that waits or measures is handed a clock. Of the time of a busy process ({@link LoopTime}):
 *
 * 1. It counts only while something waits; one timer serves everything that does.
 * 2. Each step is followed by one more turn of the event loop: what arrived during a stall is read before time is up.
 */

import { lastOf } from "./hidden-class.ts";
import { type Link, LinkedList } from "./linked-list.ts";
import { onAbort } from "./stop-signal.ts";

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

/** Whether `value` has these methods: for what a caller without types hands over. */
export function hasMethods(value: unknown, names: readonly string[]): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    names.every((name) => typeof Reflect.get(value, name) === "function")
  );
}

/** What a clock must be, as the end of "must be …". */
export const CLOCK_FORM = "a clock: an object with now, monotonicMs, sleep and timeout";

/** Whether `value` can be used as a clock. */
export function isClock(value: unknown): value is Clock {
  return hasMethods(value, ["now", "monotonicMs", "sleep", "timeout"]);
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
        forget();
        resolve();
      };
      const timer = setTimeout(done, Math.min(ms, LONGEST_TIMER_MS));
      const forget = onAbort(signal, done);
    });
  },
  timeout(ms, callback) {
    const timer = setTimeout(callback, Math.min(ms, LONGEST_TIMER_MS));
    return { cancel: () => clearTimeout(timer) };
  },
};

/** What `work` resolves to; undefined when that takes longer than `ms`: it goes on, and what becomes of it is ignored. */
export function within<T>(clock: Clock, ms: number, work: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const limit = clock.timeout(ms, () => resolve(undefined));
    work.then(resolve, reject).finally(() => limit.cancel());
  });
}

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
    lastOf.limit = limit;
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

/** Time between two steps. */
const STEP_MS = 20;
/** Most that one step counts, however late it comes. */
const MOST_COUNTED_MS = 100;

interface Appointment {
  readonly atMs: number;
  readonly due: () => void;
}

/**
 * Time as this process could use it, at 0: a stall of the event loop counts as {@link MOST_COUNTED_MS} at most, since nothing
 * could arrive meanwhile. So a busy machine is not taken for a dead Redis.
 */
export class LoopTime {
  /** Counted ms; stands still while nothing waits. Only this class writes it. */
  nowMs = 0;
  readonly #clock: Clock;
  readonly #appointments = new Set<Appointment>();
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
    const appointment = { atMs: this.nowMs + Math.max(0, ms), due };
    this.#appointments.add(appointment);
    return { cancel: () => this.#cancel(appointment) };
  }

  #cancel(appointment: Appointment): void {
    this.#appointments.delete(appointment);
    if (this.#appointments.size > 0) return;
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
    for (const appointment of [...this.#appointments]) {
      if (appointment.atMs <= this.nowMs && this.#appointments.delete(appointment)) appointment.due();
    }
    if (this.#appointments.size > 0) this.#wait();
    else this.#timer = undefined;
  }
}
