/**
 * The trust of a sweeper in the list of live workers: whether it is complete. Announcements expire by Redis' clock: after it has
 * jumped forward, while it takes no writes, or after all workers were away, the list lacks workers that live, until they have
 * announced themselves.
 */
import type { Clock } from "../shared/clock.ts";
import { WORKER_TTL_MS } from "../shared/protocol/worker.ts";

/** Time by which Redis' clock gets ahead of the sweeper's own between two looks, where it has jumped. */
const JUMP_MS = 5_000;

/** See the module's header. */
export interface ListTrust {
  /** Called when a sweeper begins to work, or Redis takes no announcement: other workers may be starting, or unable to announce. */
  begin(): void;
  /** Called with each time that Redis tells, epoch ms. */
  tell(redisMs: number): void;
  /** Returns true if each worker that lives has announced itself. */
  isComplete(): boolean;
}

/** Creates the trust of one sweeper; `toolsMs`: maximum time that a run waits for its tools. */
export function createListTrust(clock: Pick<Clock, "monotonicMs">, toolsMs: number): ListTrust {
  const waitMs = Math.min(WORKER_TTL_MS, toolsMs);
  let completeAtMs = Number.NEGATIVE_INFINITY;
  let aheadMs: number | undefined;
  const begin = () => {
    completeAtMs = clock.monotonicMs() + waitMs;
  };
  return {
    begin,
    tell(redisMs) {
      const nowAheadMs = redisMs - clock.monotonicMs();
      if (aheadMs !== undefined && nowAheadMs - aheadMs > JUMP_MS) begin();
      aheadMs = nowAheadMs;
    },
    isComplete: () => clock.monotonicMs() >= completeAtMs,
  };
}
