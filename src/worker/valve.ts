/** Lets something through unless anybody holds it closed: several may, each for a reason of its own. */

/** See the module's sentence. */
export interface Valve {
  /** Closes it for this reason. Idempotent. */
  close(why: string): void;
  /** Takes the reason back; it opens with the last one. Idempotent. */
  open(why: string): void;
  /** The reasons for which it is closed, oldest first. */
  readonly closedBy: readonly string[];
}

/** An open valve; the two functions are called when it turns. */
export function createValve({ close, open }: { close(): void; open(): void }): Valve {
  const reasons = new Set<string>();
  return {
    close(why) {
      const wasOpen = reasons.size === 0;
      reasons.add(why);
      if (wasOpen) close();
    },
    open(why) {
      if (reasons.delete(why) && reasons.size === 0) open();
    },
    get closedBy() {
      return [...reasons];
    },
  };
}
