/**
 * Which runs may be active in this process. A suspect is a run in which two workers in a row crashed: it runs alone, so that a
 * crash can be blamed on it, and hurts no other run.
 * Owns the slots of this process; `claim.lua` counts crashes, `run.ts` hands runs back, the pool takes wakes.
 *
 * 1. Every run has a slot, from before its claim until nothing of it goes on here.
 * 2. While a slot is alone, or waits to be alone, no other slot is given out; once it is alone there is no other.
 * 3. A slot is alone until it is proved or left. At most one slot is alone or waits to be.
 */

import type { Clock } from "../shared/clock.ts";
import { onAbort } from "../shared/stop-signal.ts";

/** A suspect waits this long for the others to go. Then they have the process again, for at least as long. */
export const CLEARING_MS = 60_000;

/** See the module's header. */
export interface RunSlots {
  /** A slot for one run, beside others; undefined while a suspect has the process to itself, or waits for that. */
  admit(): RunSlot | undefined;
}

/** The slot of one run. */
export interface RunSlot {
  /** Aborts when a suspect needs the process: the run is handed back after the step at hand. */
  readonly notice: AbortSignal;
  /**
   * Gives the others notice and waits until they have gone. False when they do not go in {@link CLEARING_MS}, when another
   * suspect was first, or when the process stops: then the suspect is for another time or another process.
   */
  isolate(): Promise<boolean>;
  /** The suspect has committed a step: others may come in again. Does nothing for a slot beside others. Idempotent. */
  prove(): void;
  /** The run is over here. Idempotent. */
  leave(): void;
}

/** What the slots need: `close` pauses the consumer, `open` resumes it. */
export interface RunSlotsOptions {
  clock: Clock;
  /** Aborts when the process wants to stop. */
  draining: AbortSignal;
  close(): void;
  open(): void;
}

/** The slots of a process in which nothing is active yet. */
export function createRunSlots({ clock, draining, close, open }: RunSlotsOptions): RunSlots {
  const noticeOf = new Map<RunSlot, AbortController>();
  let suspect: { slot: RunSlot; waiting: AbortController } | undefined;
  let openUntilMs = Number.NEGATIVE_INFINITY;
  onAbort(draining, () => suspect?.waiting.abort());

  const reopen = () => {
    suspect = undefined;
    open();
  };
  const clearFor = async (slot: RunSlot): Promise<boolean> => {
    const waiting = new AbortController();
    suspect = { slot, waiting };
    close();
    for (const [other, notice] of noticeOf) if (other !== slot) notice.abort();
    if (noticeOf.size > 1) await clock.sleep(CLEARING_MS, waiting.signal);
    if (noticeOf.size === 1 && !draining.aborted) return true;
    openUntilMs = clock.monotonicMs() + CLEARING_MS;
    reopen();
    return false;
  };
  return {
    admit() {
      if (suspect) return undefined;
      const notice = new AbortController();
      const slot: RunSlot = {
        notice: notice.signal,
        async isolate() {
          if (suspect || draining.aborted || clock.monotonicMs() < openUntilMs) return false;
          return clearFor(slot);
        },
        prove() {
          if (suspect?.slot === slot) reopen();
        },
        leave() {
          noticeOf.delete(slot);
          slot.prove();
          if (noticeOf.size === 1) suspect?.waiting.abort();
        },
      };
      noticeOf.set(slot, notice);
      return slot;
    },
  };
}
