/**
 * Writes and reads of a worker that Redis refuses for a while: too few replicas, a snapshot or an append-only file that cannot
 * be written, a script that takes too long. Each is sent again until Redis takes it, like a command whose connection was lost.
 * So a run does not drop an answer that was paid for, and buy it again, because a replica restarts.
 *
 * 1. While Redis refuses, one write is sent every {@link ASK_MS}, however many wait; when Redis takes it, all others follow.
 *    Each of these is also sent every {@link FOLLOW_MS}.
 * 2. A write rejects with Redis' refusal once the process can wait no longer, and with any other error at once.
 * 3. The fence decides as always: a write that waited longer than its lease changes nothing if another worker has the run.
 *    Renewals wait as well, so a lease that is still live goes on with its run.
 */
import type { Clock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import type { AgentStore } from "../../shared/redis/agent-store.ts";
import type { BudgetBook } from "../../shared/redis/budget.ts";
import { StopSignal } from "../../shared/stop-signal.ts";

/** Time between two tries, ms. */
const ASK_MS = 100;
/** Longest wait for the write that asks, ms: on a cluster another node may refuse it. */
const FOLLOW_MS = 5_000;
/** Refusals that end by themselves or by an operator, and before which nothing was changed. */
const PASSING = /^(?:BUSY|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY) /;

interface RetryOptions {
  clock: Clock;
  logger: Logger;
  /** Aborts when the process cannot wait any longer. */
  abandoned: AbortSignal;
}

/** Sends a write or a read, again and again while Redis refuses it for a while; see the module's header. */
export type WriteRetry = <T>(send: () => Promise<T>) => Promise<T>;

/**
 * Returns `store` with the calls of a run that wait while Redis refuses them: its writes, and its reads, before which an answer
 * may still be uncommitted. The other calls reject at once.
 */
export function withWriteRetry(store: AgentStore, retry: WriteRetry): AgentStore {
  return {
    ...store,
    append: (address, input) => retry(() => store.append(address, input)),
    ask: (address, input) => retry(() => store.ask(address, input)),
    settle: (address, input) => retry(() => store.settle(address, input)),
    release: (address, input) => retry(() => store.release(address, input)),
    charge: (address, input) => retry(() => store.charge(address, input)),
    claimed: (address, answer) => retry(() => store.claimed(address, answer)),
    inbox: (address) => retry(() => store.inbox(address)),
    load: (address) => retry(() => store.load(address)),
    attached: (address, names) => retry(() => store.attached(address, names)),
  };
}

/** Returns `book` whose calls wait likewise: each names its purchase, so it may be sent again. */
export function withBudgetRetry(book: BudgetBook, retry: WriteRetry): BudgetBook {
  return {
    reserve: (...input) => retry(() => book.reserve(...input)),
    settle: (...input) => retry(() => book.settle(...input)),
  };
}

/** Creates the retry of a process: all its writes wait together. */
export function createWriteRetry({ clock, logger, abandoned }: RetryOptions): WriteRetry {
  /** Stops when the write that asks for all has ended; undefined while none asks. */
  let asking: StopSignal | undefined;
  return async (send) => {
    let own: StopSignal | undefined;
    try {
      for (;;) {
        try {
          return await send();
        } catch (error) {
          const problem = messageOf(error);
          if (!PASSING.test(problem) || abandoned.aborted) throw error;
          if (!asking) {
            logger.warn({ problem }, "Redis refuses writes; those of the runs here wait");
            asking = own = new StopSignal();
          }
        }
        await (own ? clock.sleep(ASK_MS, abandoned) : clock.sleep(FOLLOW_MS, asking.signal));
      }
    } finally {
      if (own) {
        asking = undefined;
        own.stop();
      }
    }
  };
}
