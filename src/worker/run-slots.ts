/**
 * Decides which runs may be active in this process. A suspect is a run in which two workers in a row crashed. It runs alone,
 * so that a crash can be blamed on it and hurts no other run.
 * Owns the slots of this process; `claim.lua` counts crashes, `run.ts` hands runs back, the pool takes wakes.
 *
 * 1. Every run has a slot, from before its claim until all its work in this process has ended.
 * 2. While a slot is alone, or waits to be alone, no other slot is given out; once it is alone there is no other.
 * 3. A slot is alone until it is proved or left. At most one slot is alone or waits to be.
 */

import type { Clock } from "../shared/clock.ts";
import { onAbort } from "../shared/stop-signal.ts";

/** A suspect waits at most this long for the others to leave. After a failed wait no suspect tries for as long. */
export const ISOLATION_WAIT_MS = 60_000;

/** See the module's header. */
export interface RunSlots {
  /** Returns a slot for one run beside others; undefined while a suspect runs alone or waits to. */
  admit(): RunSlot | undefined;
}

/** The slot of one run. */
export interface RunSlot {
  /** True while a suspect waits for the process: the run is handed back after its current step. */
  readonly mustHandBack: boolean;
  /**
   * Asks the other runs to yield and waits until they have left. Resolves to false if they do not leave in
   * {@link ISOLATION_WAIT_MS}, another suspect was first, or the process stops. The suspect then tries later or elsewhere.
   */
  isolate(): Promise<boolean>;
  /** The suspect has committed a step: others may enter again. Does nothing for a slot beside others. Idempotent. */
  endIsolation(): void;
  /** The run is over in this process. Idempotent. */
  leave(): void;
}

/** Options of the slots: `pause` makes the process take no more wakes, `resume` ends that. */
export interface RunSlotsOptions {
  clock: Clock;
  /** Aborts when the process wants to stop. */
  draining: AbortSignal;
  pause(): void;
  resume(): void;
}

/** Creates the slots of a process without active runs. */
export function createRunSlots(options: RunSlotsOptions): RunSlots {
  return new Slots(options);
}

class Slots implements RunSlots {
  readonly #options: RunSlotsOptions;
  readonly #taken = new Set<Slot>();
  #suspect: { slot: Slot; waiting: AbortController } | undefined;
  /** No suspect may clear the process before this time, monotonic ms. */
  #openUntilMs = Number.NEGATIVE_INFINITY;

  constructor(options: RunSlotsOptions) {
    this.#options = options;
    onAbort(options.draining, () => this.#suspect?.waiting.abort());
  }

  admit(): RunSlot | undefined {
    if (this.#suspect) return undefined;
    const slot = new Slot(this);
    this.#taken.add(slot);
    return slot;
  }

  async isolate(slot: Slot): Promise<boolean> {
    const { clock, draining, pause } = this.#options;
    if (this.#suspect || draining.aborted || clock.monotonicMs() < this.#openUntilMs) return false;
    const waiting = new AbortController();
    this.#suspect = { slot, waiting };
    pause();
    for (const other of this.#taken) if (other !== slot) other.mustHandBack = true;
    if (this.#taken.size > 1) await clock.sleep(ISOLATION_WAIT_MS, waiting.signal);
    if (this.#taken.size === 1 && !draining.aborted) return true;
    this.#openUntilMs = clock.monotonicMs() + ISOLATION_WAIT_MS;
    this.#reopen();
    return false;
  }

  endIsolation(slot: Slot): void {
    if (this.#suspect?.slot === slot) this.#reopen();
  }

  leave(slot: Slot): void {
    this.#taken.delete(slot);
    this.endIsolation(slot);
    if (this.#taken.size === 1) this.#suspect?.waiting.abort();
  }

  #reopen(): void {
    this.#suspect = undefined;
    for (const slot of this.#taken) slot.mustHandBack = false;
    this.#options.resume();
  }
}

class Slot implements RunSlot {
  mustHandBack = false;
  readonly #slots: Slots;

  constructor(slots: Slots) {
    this.#slots = slots;
  }

  isolate(): Promise<boolean> {
    return this.#slots.isolate(this);
  }

  endIsolation(): void {
    this.#slots.endIsolation(this);
  }

  leave(): void {
    this.#slots.leave(this);
  }
}
