/**
 * Which runs may be active in this process. A suspect is a run in which two workers in a row crashed: it runs alone, so that a
 * crash can be blamed on it, and hurts no other run.
 * Owns the places of this process; `claim.lua` counts deaths, `run.ts` gives runs back, the pool takes wakes.
 *
 * 1. Every run has a place, from before its claim until nothing of it goes on here.
 * 2. While a place is alone, or waits to be alone, no other place is given out; once it is alone there is no other.
 * 3. A place is alone until it is proved or left. At most one place is alone or waits to be.
 */
import type { Clock } from "../shared/clock.ts";

/** A suspect waits this long for the others to go. Then they have the process again, for at least as long. */
export const CLEARING_MS = 60_000;

/** See the module's header. */
export interface Quarantine {
  /** A place for one run, beside others; undefined while a suspect has the process to itself, or waits for that. */
  admit(): Place | undefined;
}

/** The place of one run. */
export interface Place {
  /** Aborts when a suspect needs the process: the run is handed back after the step at hand. */
  readonly notice: AbortSignal;
  /**
   * Gives the others notice and waits until they have gone. False when they do not go in {@link CLEARING_MS}, when another
   * suspect was first, or when the process stops: then the suspect is for another time or another process.
   */
  isolate(): Promise<boolean>;
  /** The suspect has committed a step: others may come in again. Does nothing for a place beside others. Idempotent. */
  prove(): void;
  /** The run is over here. Idempotent. */
  leave(): void;
}

/** What a quarantine needs: `close` and `open` are told when wakes are of no use here, and when they are again. */
export interface QuarantineOptions {
  clock: Clock;
  /** Aborts when the process wants to stop. */
  draining: AbortSignal;
  close(): void;
  open(): void;
}

/** The quarantine of a process in which nothing is active yet. */
export function createQuarantine({ clock, draining, close, open }: QuarantineOptions): Quarantine {
  const noticeOf = new Map<Place, AbortController>();
  let suspect: { place: Place; waiting: AbortController } | undefined;
  let openUntilMs = Number.NEGATIVE_INFINITY;
  draining.addEventListener("abort", () => suspect?.waiting.abort(), { once: true });

  const reopen = () => {
    suspect = undefined;
    open();
  };
  const clearFor = async (place: Place): Promise<boolean> => {
    const waiting = new AbortController();
    suspect = { place, waiting };
    close();
    for (const [other, notice] of noticeOf) if (other !== place) notice.abort();
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
      const place: Place = {
        notice: notice.signal,
        async isolate() {
          if (suspect || draining.aborted || clock.monotonicMs() < openUntilMs) return false;
          return clearFor(place);
        },
        prove() {
          if (suspect?.place === place) reopen();
        },
        leave() {
          noticeOf.delete(place);
          place.prove();
          if (noticeOf.size === 1) suspect?.waiting.abort();
        },
      };
      noticeOf.set(place, notice);
      return place;
    },
  };
}
