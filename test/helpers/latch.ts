/** A one-time signal for tests: one side awaits `opened`, the other calls `open()`. */
import { type Clock, systemClock } from "../../src/shared/clock.ts";

export interface Latch<T> {
  /** Resolves with the first value given to `open`. */
  readonly opened: Promise<T>;
  readonly isOpen: boolean;
  /** Opens the latch; only the first call has an effect. */
  open(value: T): void;
}

/** Makes a closed latch. `latch()` needs no value, `latch<number>()` carries one. */
export function latch<T = void>(): Latch<T> {
  let resolve: (value: T) => void = () => {};
  let isOpen = false;
  const opened = new Promise<T>((fulfil) => {
    resolve = fulfil;
  });
  return {
    opened,
    get isOpen() {
      return isOpen;
    },
    open(value) {
      isOpen = true;
      resolve(value);
    },
  };
}

/** Returns a clock that opens `begun` when a caller starts a wait of exactly `ms`. */
export function beginning(ms: number, begun: Latch<void>): Clock {
  return {
    ...systemClock,
    sleep(asleepMs, signal) {
      if (asleepMs === ms) begun.open();
      return systemClock.sleep(asleepMs, signal);
    },
    timeout(limitMs, callback) {
      if (limitMs === ms) begun.open();
      return systemClock.timeout(limitMs, callback);
    },
  };
}

/** Returns a clock that holds back the timeouts of exactly `ms`; `release` calls those, and later ones come in their time. */
export function holdingBack(ms: number): { clock: Clock; release(): void } {
  const due = new Set<() => void>();
  let isReleased = false;
  const clock: Clock = {
    ...systemClock,
    timeout(limitMs, callback) {
      if (limitMs !== ms || isReleased) return systemClock.timeout(limitMs, callback);
      due.add(callback);
      return { cancel: () => void due.delete(callback) };
    },
  };
  const release = () => {
    isReleased = true;
    for (const callback of due) callback();
  };
  return { clock, release };
}
