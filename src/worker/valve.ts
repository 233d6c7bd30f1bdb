/** Lets something through unless anybody holds it closed: several may, each for a reason of its own. */
import type { Clock } from "../shared/clock.ts";

/** See the module's sentence. */
export interface Valve {
  /** Closes it for this reason. Idempotent. */
  close(why: string): void;
  /** Closes it for this reason for so long from now; said again, it lasts longer. */
  closeFor(why: string, ms: number): void;
  /** Takes the reason back; it opens with the last one. Idempotent. */
  open(why: string): void;
  /** Closing and opening for this reason. */
  handle(why: string): { close(): void; open(): void };
  /** The reasons for which it is closed, oldest first. */
  readonly closedBy: readonly string[];
  /** Forgets what would open it later; it stays as it is. Idempotent. */
  stop(): void;
}

/** An open valve; the two functions are called when it turns. */
export function createValve(clock: Clock, { close, open }: { close(): void; open(): void }): Valve {
  const reasons = new Set<string>();
  const timers = new Map<string, { cancel(): void }>();
  const valve: Valve = {
    close(why) {
      const wasOpen = reasons.size === 0;
      reasons.add(why);
      if (wasOpen) close();
    },
    open(why) {
      if (reasons.delete(why) && reasons.size === 0) open();
    },
    closeFor(why, ms) {
      valve.close(why);
      timers.get(why)?.cancel();
      timers.set(
        why,
        clock.timeout(ms, () => valve.open(why)),
      );
    },
    handle: (why) => ({ close: () => valve.close(why), open: () => valve.open(why) }),
    get closedBy() {
      return [...reasons];
    },
    stop() {
      for (const timer of timers.values()) timer.cancel();
      timers.clear();
    },
  };
  return valve;
}
