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
