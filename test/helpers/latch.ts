/** A gate for tests: one side waits for `opened`, the other calls `open()`; no sleeping in between. */
import { type Clock, systemClock } from "../../src/shared/clock.ts";

export interface Latch<T> {
  /** Resolves with the first value given to `open`. */
  readonly opened: Promise<T>;
  readonly isOpen: boolean;
  /** Opens the gate; every call after the first changes nothing. */
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

/** A clock that opens `begun` when somebody begins to wait for `ms`. */
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
