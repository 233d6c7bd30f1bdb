/**
 * Time as this process could use it: a stall of the event loop counts as {@link MOST_COUNTED_MS} at most, since nothing
 * could arrive meanwhile. What waits for Redis is measured by it, so that a busy machine is not taken for a dead Redis.
 *
 * 1. Time is counted only while something waits; one timer serves everything that does.
 * 2. Each step is followed by one more turn of the event loop: what arrived during a stall is read before time is up.
 */
import type { Clock } from "../shared/clock.ts";

/** Longest time of a call, counted: a second, less what a busy process needs to notice. */
export const CALL_BUDGET_MS = 800;

/** Time between two steps. */
const STEP_MS = 20;
/** Most that one step counts, however late it comes. */
const MOST_COUNTED_MS = 100;

interface Appointment {
  readonly atMs: number;
  readonly due: () => void;
}

/** Time over `clock`, at 0; see the module's header. */
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
